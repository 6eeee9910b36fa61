package policy

import (
	"testing"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// counter denies every second call of its memory.
func counter(before ...[]byte) []byte {
	return w.Policy(1).Hook("flynn_tool", "", append(before, count(), w.I64(abi.ToolDeny), w.I64(0), w.I32(8), w.Load(0x28, 0), w.I32(2), w.Op(0x70), w.Op(0x1b))...) // rem_u, select
}

// patient denies from the 100th call of its memory on.
func patient() []byte {
	return w.Policy(1).Hook("flynn_tool", "", count(), w.I64(abi.ToolDeny), w.I64(0), w.I32(8), w.Load(0x28, 0), w.I32(100), w.Op(0x4f), w.Op(0x1b)) // ge_u, select
}

// count adds one to a number in memory.
func count() []byte {
	return w.Join(w.I32(8), w.I32(8), w.Load(0x28, 0), w.I32(1), w.Op(0x6a), w.Load(0x36, 0))
}

// grow takes a page more.
func grow() []byte { return w.Join(w.I32(1), w.Op(0x40, 0), w.Op(0x1a)) }

// named changes the name of the sandbox that it demands, and nothing else of its answer.
func named() []byte {
	frame := output(abi.OutSandbox, "a")
	var body [][]byte
	for k, b := range frame {
		body = append(body, w.I32(int32(4096+k)), w.I32(int32(b)), w.Load(0x3a, 0))
	}
	last := int32(4096 + len(frame) - 1)
	body = append(body, count(), w.I32(last), w.I32('a'), w.I32(8), w.Load(0x28, 0), w.I32(15), w.Op(0x71), w.Op(0x6a), w.Load(0x3a, 0), // and
		w.I64(abi.ToolSandbox|int64(len(frame))<<32))
	return w.Policy(1).Hook("flynn_tool", "", body...)
}

// TestPoliciesThatRemember are found and named, and no others.
func TestPoliciesThatRemember(t *testing.T) {
	for _, c := range []struct {
		name      string
		wasm      []byte
		isolation string
		calls     int
		stateful  bool
	}{
		{"one that counts", counter(), IsolationWarm, sampleEvery, true},
		{"one that counts to a large number", patient(), IsolationWarm, 10 * sampleEvery, true},
		{"one that counts, with a memory that grows", counter(grow()), IsolationWarm, 2 * sampleEvery, true},
		{"one that remembers in a name", named(), IsolationWarm, sampleEvery, true},
		{"one that would count and is reset each time", counter(), IsolationPure, 3 * sampleEvery, false},
		{"one that answers always alike", answers(abi.ToolAsk, 7), IsolationWarm, 3 * sampleEvery, false},
		{"one that fails now and then", w.Policy(1).Hook("flynn_tool", "", w.Op(0x00)), IsolationWarm, 100, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			remembers, other := tool("remembers", write(t, c.wasm)), tool("other", write(t, answers(0, 1)))
			remembers.Isolation, other.Isolation = c.isolation, IsolationWarm
			e := engine(t, other, remembers)
			e.slots[1].module.pool.most = 1 // so that one instance makes all decisions
			s := e.Pin()
			defer s.Release()
			for range c.calls {
				s.Tool(t.Context(), toolFacts())
			}
			st := e.Status()
			if found := st[1].Stateful > 0; found != c.stateful || st[1].Name != "remembers" {
				t.Errorf("found stateful: %v, want %v: %+v", found, c.stateful, st[1])
			}
			if st[0].Stateful != 0 {
				t.Errorf("a policy without state is said to have some: %+v", st[0])
			}
		})
	}
}

// TestStatelessRulesAreNeverSuspected asks rules in C and Go, each with its language's own memory, very many questions.
func TestStatelessRulesAreNeverSuspected(t *testing.T) {
	messages, _ := ruleMessages()
	for language, path := range map[string]string{"c": rulesC(t), "go": rulesGo(t)} {
		e := engine(t, Source{Name: language, Path: path, Kinds: []string{KindRoute}, Isolation: IsolationWarm, Limits: Limits{Wall: unhurried}})
		s := e.Pin()
		for n := range 5 * sampleEvery {
			s.Route(t.Context(), messages[n%len(messages)])
		}
		s.Release()
		if st := e.Status()[0]; st.Stateful != 0 || st.Resets == 0 {
			t.Errorf("%s: %+v", language, st)
		}
	}
}
