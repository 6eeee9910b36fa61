package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/policy/opa"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// Bounds of the host calls of one decision in a log, in bytes. A module can ask for large facts very often, and the log has to
// stay small nevertheless.
const (
	maxLoggedValue = 1 << 10  // of the arguments or the answer of one call
	maxLoggedCalls = 64 << 10 // of all calls
	cutCall        = "..."    // the name of a call that stands for those that are left out; Ret is their number
)

// TrimCalls returns host calls as a log keeps them: long values are cut and get a digest of the whole, and calls beyond a bound are replaced
// by one call named "...". Short calls, and those that were trimmed before, do not change.
func TrimCalls(calls []HostCall) []HostCall {
	size := 0
	for k := range calls {
		c := calls[k].trimmed()
		if size += len(c.Name) + len(c.Args) + len(c.Data) + len(c.Sum); size > maxLoggedCalls && calls[k].Name != cutCall {
			return append(trimAll(calls[:k]), leftOut(calls[k:]))
		}
	}
	return trimAll(calls)
}

func trimAll(calls []HostCall) []HostCall {
	for k := range calls {
		if calls[k].short() {
			continue
		}
		all := make([]HostCall, len(calls), len(calls)+1)
		for k := range calls {
			all[k] = calls[k].trimmed()
		}
		return all
	}
	return calls[:len(calls):len(calls)]
}

func leftOut(rest []HostCall) HostCall {
	h := sha256.New()
	for k := range rest {
		c := rest[k].trimmed()
		fmt.Fprintf(h, "%q %q %d %q %s\n", c.Name, c.Args, c.Ret, c.Data, c.Sum)
	}
	return HostCall{Name: cutCall, Ret: int32(len(rest)), Sum: hex.EncodeToString(h.Sum(nil))}
}

func (c *HostCall) short() bool {
	return len(c.Args) <= maxLoggedValue && len(c.Data) <= maxLoggedValue
}

// trimmed returns the call with its long values cut.
func (c *HostCall) trimmed() HostCall {
	if c.short() {
		return *c
	}
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(c.Args))))
	h.Write(c.Args)
	h.Write(c.Data)
	return HostCall{Name: c.Name, Args: head64(c.Args), Ret: c.Ret, Data: head64(c.Data), Sum: hex.EncodeToString(h.Sum(nil))}
}

// head64 returns the beginning of a long value, by which people can recognise it.
func head64(b []byte) []byte {
	if len(b) <= maxLoggedValue {
		return b
	}
	return b[:64:64]
}

func (c *HostCall) same(other *HostCall) bool {
	return c.Name == other.Name && c.Ret == other.Ret && c.Sum == other.Sum && bytes.Equal(c.Args, other.Args) && bytes.Equal(c.Data, other.Data)
}

// String returns the call on one line, for people.
func (c HostCall) String() string {
	line := strings.TrimSpace(c.Name + " " + c.Arguments())
	switch c.Name {
	case cutCall:
		return fmt.Sprintf("%d more calls", c.Ret)
	case "trace", "log":
		return line
	}
	return line + " = " + c.answer()
}

// Arguments returns the arguments of the call for people: numbers first, then text.
func (c HostCall) Arguments() string {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(c.Args[4*i:]) }
	switch n := len(c.Args); {
	case c.Name == "trace" && n == 8 && word(1) != 0:
		return fmt.Sprintf("rule %d applies", word(0))
	case c.Name == "trace" && n == 8:
		return fmt.Sprintf("rule %d does not apply", word(0))
	case c.Name == "get" && n == 8:
		return fmt.Sprintf("%s %d", FieldName(abi.Field(word(0))), word(1))
	case c.Name == "log" && n >= 4:
		return OneLine(c.Args[4:])
	case c.Name == "match" && n >= 8 && uint64(word(1)) <= uint64(n-8):
		kind, ok := map[uint32]string{abi.MatchGlob: "glob", abi.MatchCIDR: "cidr", abi.MatchRE2: "re2", abi.MatchDomain: "domain"}[word(0)]
		if !ok {
			kind = fmt.Sprint(word(0))
		}
		return kind + " " + OneLine(c.Args[8:8+word(1)]) + " " + OneLine(c.Args[8+word(1):])
	}
	return OneLine(c.Args)
}

// OneLine returns text of one line unchanged, other text quoted, and other bytes in hexadecimal.
func OneLine(b []byte) string {
	s := string(b)
	switch {
	case !utf8.ValidString(s):
		return fmt.Sprintf("0x%x", b)
	case strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }):
		return strconv.Quote(s)
	}
	return s
}

// FieldNames returns the names of the facts in case files. The map must not be changed.
func FieldNames() map[abi.Field]string { return fieldNames() }

var fieldNames = sync.OnceValue(func() map[abi.Field]string {
	names := map[abi.Field]string{abi.OutAgent: "out_agent", abi.OutSandbox: "out_sandbox", abi.OutReason: "out_reason"}
	for _, f := range append(opa.RouteFacts(), opa.ToolFacts()...) {
		names[f.Field] = f.Name
	}
	return names
})

// FieldName returns the name of a fact in case files.
func FieldName(id abi.Field) string {
	if name, ok := FieldNames()[id]; ok {
		return name
	}
	return fmt.Sprintf("field %d", id)
}

func (c *HostCall) answer() string {
	switch {
	case c.Ret == absent:
		return "absent"
	case c.Sum != "":
		return fmt.Sprintf("%q... (%d bytes)", c.Data, c.Ret)
	case c.Name == "arg_kind":
		return fmt.Sprint(c.Ret)
	}
	return fmt.Sprintf("%q", c.Data)
}

// Fact returns a string fact of the decision, "" if it is absent or the frame cannot be read.
func (r *Record) Fact(id abi.Field) string {
	if checkFrame(r.Frame, frameKind(r.Kind)) != nil {
		return ""
	}
	v, ok := fieldOf(r.Frame, id)
	if !ok || v.kind != abi.TypeString {
		return ""
	}
	return string(v.bytes)
}
