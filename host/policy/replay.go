package policy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/flynnhost/flynn/host/policy/opa"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// Replayed compares a recorded decision with the same question asked again.
type Replayed struct {
	Was, Is Record
	// Answer is true if decision, name, reason and failure are the same; Fuel if the fuel is.
	Answer, Fuel bool
	// Call is the index of the first host call that differs, or -1.
	Call int
	// Lacks is "text" or "arguments" if the module asked for it and the record does not have all of it, so that the comparison says nothing.
	Lacks string
}

// Same reports whether nothing differs.
func (r Replayed) Same() bool { return r.Answer && r.Fuel && r.Call < 0 }

// OpenOptions are those of OpenWith; see the fields of the same names in Config.
type OpenOptions struct {
	CacheDir    string
	CountBlocks bool
}

// Open loads one policy outside of any chain, to replay decisions on it or to try it out. It has to be closed.
func Open(ctx context.Context, source Source) (*Module, error) {
	return OpenWith(ctx, source, OpenOptions{})
}

// OpenWith is Open with options.
func OpenWith(ctx context.Context, source Source, o OpenOptions) (*Module, error) {
	if err := source.check(); err != nil {
		return nil, fmt.Errorf("policy %q: %w", source.Name, err)
	}
	wasm, err := source.read(ctx)
	if err != nil {
		return nil, &Error{ClassLoad, err}
	}
	return openBytes(ctx, source, wasm, o)
}

// OpenCandidate is Open for the bytes of a module that is nowhere on the disk, in place of the policy's own. No compiled code of it is kept.
func OpenCandidate(ctx context.Context, source Source, wasm []byte) (*Module, error) {
	if err := source.check(); err != nil {
		return nil, fmt.Errorf("policy %q: %w", source.Name, err)
	}
	return openBytes(ctx, source, wasm, OpenOptions{})
}

func openBytes(ctx context.Context, source Source, wasm []byte, o OpenOptions) (*Module, error) {
	h, err := newHost(ctx, o.CacheDir)
	if err != nil {
		return nil, err
	}
	h.counts = o.CountBlocks
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

// Replay repeats a recorded decision with an instance in its first state. The record has all that the module could see: the frame, and
// what was too large for it. A decision of a warm policy may have cost other fuel than it costs here.
func (m *Module) Replay(ctx context.Context, recorded Record) (Replayed, error) {
	return m.ReplayFrame(ctx, recorded, recorded.Frame)
}

// ReplayFrame is Replay with another frame: the same question with other facts.
func (m *Module) ReplayFrame(ctx context.Context, recorded Record, frame []byte) (Replayed, error) {
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
	lacks := q.lacks()
	if err := checkFrame(frame, frameKind(q.kind)); err != nil {
		return Replayed{}, fmt.Errorf("the frame cannot be read: %w", err.Err)
	}
	q.frame = frame
	var is Record
	l := link{source: m.source, module: m}
	var v decision
	l.askFirstState(ctx, &q, &is, &v)
	if q.kind == KindRoute {
		l.route(&v, agents, &is, &RouteAnswer{})
	} else {
		l.restrict(&v, &is)
	}
	return Replayed{Was: recorded, Is: is, Call: firstDifference(recorded.Calls, is.Calls), Fuel: recorded.Fuel == is.Fuel,
		Answer: recorded.Raw == is.Raw && recorded.Answer == is.Answer && recorded.Reason == is.Reason && recorded.Error == is.Error,
		Lacks:  lacks.asked(is.Calls)}, nil
}

// lack says which facts of its decision a record does not have.
type lack struct{ text, args bool }

// lacks compares text and arguments with their length and digest in the frame.
func (q *query) lacks() lack {
	var l lack
	if whole, ok := fieldOf(q.frame, abi.TextLen); ok && len(whole.bytes) == 8 {
		l.text = intOf(q.frame, abi.TextLen) != int64(len(q.text))
	}
	if digest, ok := fieldOf(q.frame, abi.ArgsDigest); ok && q.kind == KindTool {
		sum := sha256.Sum256(q.args)
		var want [2 * sha256.Size]byte
		hex.Encode(want[:], sum[:])
		l.args = !bytes.Equal(digest.bytes, want[:])
	}
	return l
}

// asked returns which of the lacking facts a module with these calls has asked for.
func (l lack) asked(calls []HostCall) string {
	if !l.text && !l.args {
		return ""
	}
	for k := range calls {
		c := &calls[k]
		switch {
		case l.args && (c.Name == "arg" || c.Name == "arg_kind" || c.Name == InputCall && bytes.Contains(c.Args, []byte(opa.Args))):
			return "arguments"
		case l.text && c.Name == InputCall && bytes.Contains(c.Args, []byte("text")):
			return "text"
		case l.text && c.Name == "get" && len(c.Args) == 8 && binary.LittleEndian.Uint32(c.Args) == uint32(abi.Text):
			return "text"
		}
	}
	return ""
}

// askFirstState is ask with an instance in its first state, whatever the isolation.
func (l *link) askFirstState(ctx context.Context, q *query, r *Record, v *decision) {
	l.describe(q, r)
	i, err := l.module.acquire(ctx, rand.Uint32(), true)
	if err != nil {
		v.err = err
		return
	}
	defer l.module.pool.put(i)
	i.decide(ctx, q, r, v)
}

// queryOf returns the query of a record.
func queryOf(r Record) (query, error) {
	q := query{kind: r.Kind, frame: r.Frame, text: r.Text, args: r.Args}
	switch r.Kind {
	case KindRoute:
	case KindTool:
		q.tree = &tree{}
	default:
		return q, fmt.Errorf("the record is of kind %q; it has to be route or tool", r.Kind)
	}
	if err := checkFrame(r.Frame, frameKind(r.Kind)); err != nil {
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

// agentsOf returns the agents of a frame, which has to be well formed.
func agentsOf(frame []byte) ([]string, error) {
	v, ok := fieldOf(frame, abi.Agents)
	if !ok {
		return nil, nil
	}
	if v.kind != abi.TypeList {
		return nil, fmt.Errorf("the record's list of agents is of type %d", v.kind)
	}
	agents := make([]string, 0, 16)
	for all := string(v.bytes); len(all) >= 4; {
		n := binary.LittleEndian.Uint32([]byte(all[:4]))
		agents = append(agents, all[4:4+n])
		all = all[4+n:]
	}
	return agents, nil
}

// frameKind returns the kind of decision as a number of the ABI.
func frameKind(kind string) uint16 {
	if kind == KindTool {
		return abi.FrameTool
	}
	return abi.FrameRoute
}

// firstDifference returns the index of the first call that differs in what a log keeps, or -1.
func firstDifference(was, is []HostCall) int {
	was, is = TrimCalls(was), TrimCalls(is)
	n := min(len(was), len(is))
	for k := range n {
		if !was[k].same(&is[k]) {
			return k
		}
	}
	if len(was) != len(is) {
		return n
	}
	return -1
}
