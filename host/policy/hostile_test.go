package policy

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
)

// write puts a module into a file of its own.
func write(t testing.TB, wasm []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.wasm")
	if err := os.WriteFile(path, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// engine runs a chain of sources until the test ends.
func engine(t testing.TB, sources ...Source) *Engine {
	t.Helper()
	e, err := New(context.Background(), Config{Sources: sources})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func someFacts() Facts {
	f := Facts{Role: "member", Door: "channel", Labels: []string{"web:example.com", "sender:guest"}, Now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Seed: 42}
	f.Message.Channel, f.Message.Sender.ID, f.Message.Text = "irc", "alice", "hello there"
	f.Message.Conversation.ID, f.Message.Conversation.Kind = "#room", "group"
	return f
}

func routeFacts() RouteFacts {
	return RouteFacts{Facts: someFacts(), Agents: []string{"main", "errors"}}
}

func toolFacts() ToolFacts {
	return ToolFacts{Facts: someFacts(), Agent: "main", Session: "s", Tool: "shell", Effect: "execute", Args: []byte(`{"command":"ls","n":[1,{"a/b":true}]}`)}
}

// unhurried is a wall limit that only a module without any other limit would meet, on a machine however busy.
const unhurried = 10 * time.Second

// TestHostileCorpus runs every attack beside a policy that means well, while the garbage collector runs again and again: the attack ends as its
// head says, and nothing else notices.
func TestHostileCorpus(t *testing.T) {
	neighbour := write(t, w.Policy(1).Hook("flynn_route", "", w.I64(0)))
	for name, a := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			good := Source{Name: "good", Path: neighbour, Kinds: []string{KindRoute}, Limits: Limits{Wall: unhurried}}
			e := engine(t, good, a.source(t, "bad"))
			if !a.checkLoaded(t, e.Status()[1]) {
				return
			}
			s := e.Pin()
			defer s.Release()
			watch := watchHost(e.slots[0].module)
			fuel, n := int64(0), 0
			for begin := time.Now(); n < 3 || !watch.busy() && time.Since(begin) < slack; n++ { // the later ones on an instance that has failed before
				r := a.check(t, s)
				if n == 0 {
					fuel = r.Fuel
				}
				if r.Fuel != fuel && a.class != ClassDeadline {
					t.Errorf("decision %d took %d units, the first %d", n, r.Fuel, fuel)
				}
			}
			watch.check(t)
			a.checkStatus(t, e.Status(), n)
		})
	}
}

// checkLoaded compares how the module was loaded and reports whether it can be asked.
func (a *attack) checkLoaded(t *testing.T, st Status) bool {
	t.Helper()
	if a.load != "" {
		if st.State != StateFailing || !strings.Contains(st.Error, a.load) || len(st.Error) > 4000 {
			t.Fatalf("state %s, %.4000q, want %q", st.State, st.Error, a.load)
		}
		return false
	}
	if st.State != StateRunning {
		t.Fatalf("not loaded: %s", st.Error)
	}
	return true
}

// check makes one decision of a chain whose last policy is the attack.
func (a *attack) check(t *testing.T, s *Set) Record {
	t.Helper()
	route, call := a.facts()
	var records []Record
	closed := true
	if a.kind == KindTool {
		var got Restrictions
		got, records = s.Tool(t.Context(), call)
		closed = got.Deny
	} else {
		var got RouteAnswer
		got, records = s.Route(t.Context(), route)
		closed = got.Decided && got.Failed && got.Agent == "errors"
	}
	r := records[len(records)-1]
	switch {
	case a.class == "" && (r.Error != "" || r.Answer != a.answer || r.Rule != a.rule):
		t.Fatalf("it answers %q by rule %#x, %.300q; want %q by %#x", r.Answer, r.Rule, r.Error, a.answer, a.rule)
	case a.class != "" && (!closed || !strings.HasPrefix(r.Error, string(a.class)+": ")):
		t.Fatalf("closed %v with the error %.300q, want class %s", closed, r.Error, a.class)
	}
	if limit := a.limits.withDefaults().Fuel; a.class == ClassFuel && limit == DefaultFuel && r.Fuel <= limit || a.class == ClassDeadline && r.Fuel < sliceFuel {
		t.Fatalf("it failed after %d of %d units", r.Fuel, limit)
	}
	if noted := recorded(r); noted > maxNoted || len(r.Error) > 4000 || strings.ContainsAny(r.Error, "\x1b\x07\x00") {
		t.Fatalf("%d bytes of calls are recorded, with %.5000q", noted, r.Error)
	}
	return r
}

func recorded(r Record) (n int) {
	for _, c := range r.Calls {
		n += len(c.Args) + len(c.Data)
	}
	return n
}

// checkStatus compares what the engine tells after so many decisions.
func (a *attack) checkStatus(t *testing.T, all []Status, decisions int) {
	t.Helper()
	good, bad := all[0], all[1]
	failures := int64(0)
	if a.class != "" {
		failures = int64(decisions)
	}
	if bad.State != StateRunning || bad.Instances < 1 || bad.Decisions-bad.Failures < 0 {
		t.Errorf("the attack's status is %+v", bad)
	}
	if a.class != ClassAgent && bad.Failures < failures { // the agent is looked at by the chain, not the instance
		t.Errorf("%d failures are counted of %d", bad.Failures, failures)
	}
	if good.State != StateRunning || good.Failures != 0 || good.Decisions == 0 {
		t.Errorf("the good policy's status is %+v", good)
	}
}

// hostWatch asks the good policy and collects garbage until it is checked.
type hostWatch struct {
	stop, done chan struct{}
	rounds     atomic.Int64
	wrong      Record
	longest    time.Duration // garbage collection
	heap       uint64        // at most
}

// heapBound is what an attack may make the host allocate, in bytes, beside what was there.
const heapBound = 256 << 20

func watchHost(good *Module) *hostWatch {
	h := &hostWatch{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(h.done)
		for {
			select {
			case <-h.stop:
				return
			default:
			}
			if _, r := good.Route(context.Background(), routeFacts()); r.Error != "" || r.Answer != "abstain" {
				h.wrong = r
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			h.heap = max(h.heap, m.HeapAlloc)
			begin := time.Now()
			runtime.GC()
			h.longest = max(h.longest, time.Since(begin))
			h.rounds.Add(1)
		}
	}()
	return h
}

// busy tells that something was watched.
func (h *hostWatch) busy() bool { return h.rounds.Load() >= 2 }

func (h *hostWatch) check(t *testing.T) {
	t.Helper()
	close(h.stop)
	<-h.done
	if h.wrong.Error != "" || h.wrong.Answer != "" {
		t.Errorf("the good policy answers %+v", h.wrong)
	}
	if h.longest > slack || h.heap > heapBound || h.rounds.Load() == 0 {
		t.Errorf("the garbage collector took %v, the heap had %d MB, in %d rounds", h.longest, h.heap>>20, h.rounds.Load())
	}
}

// slack is what the test allows on a busy machine; the benchmark measures.
const slack = 5 * time.Second

// watchPauses stops the world every millisecond and returns how long that took at most.
func watchPauses() func() time.Duration {
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		var most time.Duration
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				longest <- most
				return
			case <-tick.C:
				var m runtime.MemStats
				begin := time.Now()
				runtime.ReadMemStats(&m)
				most = max(most, time.Since(begin))
			}
		}
	}()
	return func() time.Duration { close(stop); return <-longest }
}

// TestModuleThatCannotLoadFailsClosed: what is not loaded denies, in its place in the chain.
func TestModuleThatCannotLoadFailsClosed(t *testing.T) {
	for name, a := range malformed() {
		if a.load == "" || len(a.wasm) > 1<<16 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := engine(t, Source{Name: "bad", Path: write(t, a.wasm), Kinds: []string{KindTool}}).Pin()
			defer s.Release()
			got, records := s.Tool(t.Context(), toolFacts())
			if !got.Deny || len(got.Reasons) != 1 || records[0].Error == "" || records[0].Answer != "deny" {
				t.Errorf("it does not deny: %+v, %+v", got, records)
			}
		})
	}
}

// TestTruncatedModules: no beginning of a module is one; of one without data, for without its data a module may still be valid.
func TestTruncatedModules(t *testing.T) {
	whole := w.Policy(1)
	whole.Table(whole.Func(">i", "il", w.I32(7)))
	whole.Global(3)
	wasm := whole.Hook("flynn_tool", "l", w.Loop(w.LocalGet(0), w.BrIf(0)), w.I64(0))
	h, err := newHost(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer h.release()
	for n := range wasm {
		if m, err := loadModule(t.Context(), h, tool("p", ""), wasm[:n]); err == nil {
			m.release()
			t.Errorf("%d of %d bytes are loaded", n, len(wasm))
		}
	}
}
