package policy

import (
	"slices"
	"testing"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// counted loads one policy whose blocks are counted, or not, until the test ends.
func counted(t *testing.T, count bool, source Source) *Module {
	t.Helper()
	var loaded *Module
	e, err := New(t.Context(), Config{Sources: []Source{source}, CountBlocks: count})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if loaded = e.slots[0].module; loaded == nil {
		t.Fatal(e.Status()[0].Error)
	}
	return loaded
}

// taken is how often each block has run since the last time.
func taken(m *Module) []uint64 {
	counts := make([]uint64, len(m.Blocks()))
	m.TakeCounts(func(block int, n uint64) { counts[block] += n })
	return counts
}

// A decision is the same, to the unit of fuel and in its host calls, whether its blocks are counted or not; and a
// pristine instance runs the same blocks for the same question.
func TestCountingChangesNoDecision(t *testing.T) {
	messages, _ := ruleMessages()
	for language, build := range map[string]func(testing.TB) string{"c": rulesC, "go": rulesGo} {
		for _, isolation := range []string{IsolationPure, IsolationWarm} {
			t.Run(language+" "+isolation, func(t *testing.T) {
				source := Source{Name: "rules", Path: build(t), Kinds: []string{KindRoute}, Isolation: isolation, Limits: Limits{Wall: unhurried}}
				plain, counting := counted(t, false, source), counted(t, true, source)
				if plain.Digest() != counting.Digest() {
					t.Errorf("counting makes another policy of it: %s, %s", plain.Digest(), counting.Digest())
				}
				if sum(taken(counting)) != 0 {
					t.Error("blocks have run before the first decision")
				}
				ran := map[int][]uint64{}
				for n := range 3 * len(messages) {
					i := n % len(messages)
					want, r := plain.Route(t.Context(), messages[i])
					got, s := counting.Route(t.Context(), messages[i])
					if got != want || r.Fuel != s.Fuel || r.Raw != s.Raw || firstDifference(r.Calls, s.Calls) >= 0 {
						t.Fatalf("message %d: %+v for %d, counted %+v for %d", i, want, r.Fuel, got, s.Fuel)
					}
					counts := taken(counting)
					if ran[i] == nil {
						ran[i] = counts
					} else if !slices.Equal(ran[i], counts) {
						t.Errorf("message %d: other blocks ran than before", i)
					}
					if sum(counts) == 0 {
						t.Errorf("message %d: no block ran", i)
					}
				}
				if plain.Blocks() != nil || sum(taken(plain)) != 0 {
					t.Error("a module that does not count has blocks")
				}
			})
		}
	}
}

func sum(counts []uint64) (total uint64) {
	for _, n := range counts {
		total += n
	}
	return total
}

// The counters are outside of the module's memory: it sees as much of that as ever, and may have all of it.
func TestCountersTakeNoMemoryFromTheModule(t *testing.T) {
	deny := w.I64(abi.ToolDeny)
	// The rule is the size of the memory after growing by one page, in pages.
	wasm := w.Policy(2).Hook("flynn_tool", "", w.I32(1), w.Op(0x40, 0, 0x1a), deny, w.Op(0x3f, 0, 0xad), w.I64(8), w.Op(0x86, 0x84))
	source := tool("grows", write(t, wasm))
	source.Limits.Memory = 3 << 16
	for _, count := range []bool{false, true} {
		m := counted(t, count, source)
		for range 3 {
			if got, r := m.Tool(t.Context(), toolFacts()); !got.Deny || r.Rule != 3 || r.Error != "" {
				t.Errorf("counting %v: %+v, %+v", count, got, r)
			}
		}
	}
}

func TestInitialisingIsCountedApart(t *testing.T) {
	m := w.Policy(1)
	m.Export("_initialize", m.Func(">", "i", w.I32(10), w.LocalSet(0), w.Loop(w.LocalGet(0), w.I32(1), w.Op(0x6b, 0x22, 0), w.BrIf(0))))
	loaded := counted(t, true, tool("p", write(t, m.Hook("flynn_tool", "", w.I64(0)))))
	if got := slices.Max(loaded.InitialCounts()); got != 10 {
		t.Errorf("the loop ran %d times in the initialisation, want 10", got)
	}
	loaded.Tool(t.Context(), toolFacts())
	if got := sum(taken(loaded)); got != 1 {
		t.Errorf("%d blocks ran in a decision, want the hook's one", got)
	}
}

// An instance that fails, or whose memory has grown, makes room for another. Its counts stay.
func TestCountsOutliveTheirInstance(t *testing.T) {
	for name, path := range map[string]string{
		"fails": write(t, w.Policy(1).Hook("flynn_tool", "", w.Op(0x00))),
		"grows": write(t, w.Policy(1).Hook("flynn_tool", "", w.I32(1), w.Op(0x40, 0, 0x1a), w.I64(abi.ToolDeny))),
	} {
		source := tool("p", path)
		source.Isolation = IsolationPure
		loaded := counted(t, true, source)
		for range 5 {
			loaded.Tool(t.Context(), toolFacts())
		}
		if got := sum(taken(loaded)); got != 5 {
			t.Errorf("%s: %d blocks in 5 decisions", name, got)
		}
		if got := sum(taken(loaded)); got != 0 {
			t.Errorf("%s: %d blocks are taken twice", name, got)
		}
	}
}
