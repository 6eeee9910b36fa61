package policy

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// Replayed compares a recorded decision with the same question asked again.
type Replayed struct {
	Was, Is Record
	// Answer tells that verdict, name, reason and failure are the same; Fuel that the fuel is, to the unit.
	Answer, Fuel bool
	// Call is the index of the first host call that differs, or -1.
	Call int
}

// Same tells that nothing differs.
func (r Replayed) Same() bool { return r.Answer && r.Fuel && r.Call < 0 }

// Open loads one policy outside of any chain, to replay decisions on it or to try it out. It has to be closed.
func Open(ctx context.Context, source Source) (*Module, error) {
	if err := source.check(); err != nil {
		return nil, fmt.Errorf("policy %q: %w", source.Name, err)
	}
	wasm, err := readModule(source.Path)
	if err != nil {
		return nil, &Error{ClassLoad, err}
	}
	h, err := newHost(ctx, "")
	if err != nil {
		return nil, err
	}
	m, err := loadModule(ctx, h, source, wasm)
	if closing := h.release(); err == nil && closing != nil {
		m.release()
		return nil, closing
	}
	return m, err
}

// Close ends a module from Open.
func (m *Module) Close() error {
	m.release()
	return nil
}

// Replay asks a recorded decision of the policy as it is in source now.
func Replay(ctx context.Context, source Source, recorded Record) (Replayed, error) {
	m, err := Open(ctx, source)
	if err != nil {
		return Replayed{}, err
	}
	defer m.release()
	return m.Replay(ctx, recorded)
}

// Replay asks the recorded decision again, of an instance in its first state. The record holds all that the module could
// see: the frame, and what was too large for it. A decision of a warm policy may have cost other fuel than it costs here.
func (m *Module) Replay(ctx context.Context, recorded Record) (Replayed, error) {
	q, err := queryOf(recorded)
	if err != nil {
		return Replayed{}, err
	}
	if !m.source.has(q.kind) {
		return Replayed{}, fmt.Errorf("policy %s decides %s, not %s", m.source.Name, strings.Join(m.source.Kinds, " and "), q.kind)
	}
	agents, err := agentsOf(q.frame)
	if err != nil {
		return Replayed{}, err
	}
	var is Record
	l := link{source: m.source, module: m}
	v := l.askFirstState(ctx, &q, &is)
	if q.kind == KindRoute {
		l.route(&v, agents, &is)
	} else {
		l.restrict(&v, &is)
	}
	return Replayed{Was: recorded, Is: is, Call: firstDifference(recorded.Calls, is.Calls), Fuel: recorded.Fuel == is.Fuel,
		Answer: recorded.Raw == is.Raw && recorded.Answer == is.Answer && recorded.Reason == is.Reason && recorded.Error == is.Error}, nil
}

// askFirstState is ask, after a reset whatever the isolation.
func (l *link) askFirstState(ctx context.Context, q *query, r *Record) verdict {
	l.describe(q, r)
	i, err := l.module.acquire(ctx, true)
	if err != nil {
		return verdict{err: err}
	}
	defer l.module.pool.put(i)
	return i.decide(ctx, q, r)
}

// queryOf makes the question of a record again.
func queryOf(r Record) (query, error) {
	kind := uint16(abi.FrameRoute)
	q := query{kind: r.Kind, frame: r.Frame, text: r.Text, args: r.Args}
	switch r.Kind {
	case KindRoute:
	case KindTool:
		kind, q.tree = abi.FrameTool, &tree{}
	default:
		return q, fmt.Errorf("the record is of kind %q; it has to be route or tool", r.Kind)
	}
	if err := checkFrame(r.Frame, kind); err != nil {
		return q, fmt.Errorf("the record's frame cannot be read: %w", err.Err)
	}
	q.seed, q.unix = intOf(r.Frame, abi.Seed), intOf(r.Frame, abi.UnixTime)
	if text, ok := fieldOf(r.Frame, abi.Text); ok && q.text == "" {
		q.text = string(text.bytes)
	}
	return q, nil
}

func intOf(frame []byte, id abi.Field) int64 {
	v, ok := fieldOf(frame, id)
	if !ok || len(v.bytes) != 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(v.bytes))
}

func agentsOf(frame []byte) ([]string, error) {
	v, ok := fieldOf(frame, abi.Agents)
	if !ok {
		return nil, nil
	}
	if v.kind != abi.TypeList {
		return nil, fmt.Errorf("the record's list of agents is of type %d", v.kind)
	}
	var agents []string
	for k := uint32(0); ; k++ {
		name, ok := v.item(k)
		if !ok {
			return agents, nil
		}
		agents = append(agents, string(name))
	}
}

// firstDifference is -1 when both made the same calls and got the same answers.
func firstDifference(was, is []HostCall) int {
	n := min(len(was), len(is))
	for k := range n {
		a, b := was[k], is[k]
		if a.Name != b.Name || a.Ret != b.Ret || !bytes.Equal(a.Args, b.Args) || !bytes.Equal(a.Data, b.Data) {
			return k
		}
	}
	if len(was) != len(is) {
		return n
	}
	return -1
}
