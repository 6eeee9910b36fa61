//go:build !wasip1

// Package policytest runs a policy natively, under plain `go test`: it builds frames as the host does, and replaces the host's functions.
//
// Start with Route, Tool and Host. It is for quick unit tests of a policy's parts; `flynn policy dev test` tests a policy as a module, under
// its limits.
package policytest

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/sdk/policy"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// Frame holds facts by field. A value is a string, an int, a bool or a []string.
type Frame map[abi.Field]any

// Route returns the facts of a routing decision.
func Route(t testing.TB, facts Frame) policy.RouteFacts {
	t.Helper()
	f, ok := policy.ReadRoute(facts.Encode(t, abi.FrameRoute))
	if !ok {
		t.Fatal("policytest: the frame does not read back")
	}
	return f
}

// Tool returns the facts of a tool decision.
func Tool(t testing.TB, facts Frame) policy.ToolFacts {
	t.Helper()
	f, ok := policy.ReadTool(facts.Encode(t, abi.FrameTool))
	if !ok {
		t.Fatal("policytest: the frame does not read back")
	}
	return f
}

// Encode encodes the facts as a frame of the kind abi.FrameRoute or abi.FrameTool.
func (f Frame) Encode(t testing.TB, kind uint16) []byte {
	t.Helper()
	le := binary.LittleEndian
	table := le.AppendUint32(nil, abi.Magic)
	table = le.AppendUint16(table, kind)
	table = le.AppendUint16(table, uint16(len(f)))
	table = append(table, make([]byte, 8)...)
	start := abi.HeaderSize + len(f)*abi.EntrySize
	var values []byte
	for _, id := range slices.Sorted(maps.Keys(f)) {
		for (start+len(values))%8 != 0 {
			values = append(values, 0)
		}
		typ, value := encode(t, id, f[id])
		table = le.AppendUint16(table, uint16(id))
		table = le.AppendUint16(table, typ)
		table = le.AppendUint32(table, uint32(start+len(values)))
		table = le.AppendUint32(table, uint32(len(value)))
		values = append(values, value...)
	}
	frame := append(table, values...)
	le.PutUint32(frame[8:], uint32(len(frame)))
	return frame
}

func encode(t testing.TB, id abi.Field, v any) (typ uint16, value []byte) {
	t.Helper()
	switch v := v.(type) {
	case string:
		return abi.TypeString, []byte(v)
	case int:
		return abi.TypeInt, binary.LittleEndian.AppendUint64(nil, uint64(v))
	case bool:
		if v {
			return abi.TypeBool, []byte{1}
		}
		return abi.TypeBool, []byte{0}
	case []string:
		for _, s := range v {
			value = binary.LittleEndian.AppendUint32(value, uint32(len(s)))
			value = append(value, s...)
		}
		return abi.TypeList, value
	}
	t.Fatalf("policytest: field %d has a value of type %T; use string, int, bool or []string", id, v)
	return 0, nil
}
