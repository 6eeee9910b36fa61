package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/event"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// shadowed runs an engine whose shadows report to the channel.
func shadowed(t testing.TB, sources ...Source) (*Set, *Engine, <-chan Shadowed) {
	t.Helper()
	said := make(chan Shadowed, 10_000)
	e, err := New(t.Context(), Config{Sources: sources, Events: event.Only(func(s Shadowed) { said <- s })})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.RunShadows(ctx) }()
	for !e.shadows.isRunning() {
		runtime.Gosched()
	}
	set := e.Pin()
	t.Cleanup(func() {
		set.Release()
		cancel()
		if err := errors.Join(<-done, e.Close()); err != nil {
			t.Error(err)
		}
	})
	return set, e, said
}

func (q *shadowQueue) isRunning() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running
}

func heard(t testing.TB, said <-chan Shadowed) Shadowed {
	t.Helper()
	select {
	case s := <-said:
		return s
	case <-time.After(time.Minute):
		t.Fatal("no shadow has answered in a minute")
		return Shadowed{}
	}
}

// answers is a module that gives the same answer to every tool call.
func answers(decision int64, rule int64) []byte {
	return w.Policy(1).Hook("flynn_tool", "", w.I64(decision|rule<<8))
}

// routes is a module that gives the same answer to every message; an agent's name comes in an output frame.
func routes(agent string) []byte {
	m := w.Policy(1)
	if agent == "" {
		return m.Hook("flynn_route", "", w.I64(abi.RouteAbstain))
	}
	if agent == "drop" {
		return m.Hook("flynn_route", "", w.I64(abi.RouteDrop))
	}
	var body [][]byte
	for k, b := range output(abi.OutAgent, agent) {
		body = append(body, w.I32(int32(4096+k)), w.I32(int32(b)), w.Load(0x3a, 0))
	}
	return m.Hook("flynn_route", "", append(body, w.I64(abi.RouteAgent|int64(len(output(abi.OutAgent, agent)))<<32))...)
}

func shadow(s Source, of string) Source {
	s.Shadow, s.ShadowOf = true, of
	return s
}

func TestShadowOfToolPolicies(t *testing.T) {
	trap := w.Policy(1).Hook("flynn_tool", "", w.Op(0x00))
	for _, c := range []struct {
		name              string
		live              []byte
		shadow            []byte
		of                string
		outcome           ShadowOutcome
		was, is, isReason string
	}{
		{"the chain, and the same", answers(abi.ToolAsk, 1), answers(abi.ToolAsk, 2), "", ShadowSame, "ask", "ask", "rule 2"},
		{"the chain, and more", answers(0, 0), answers(abi.ToolDeny, 2), "", ShadowChanged, "none", "deny", "rule 2"},
		{"the chain, and what it adds nothing to", answers(abi.ToolDeny, 1), answers(abi.ToolAsk, 2), "", ShadowSame, "deny", "deny", "rule 2"},
		{"the chain, and less: a shadow within it takes nothing away", answers(abi.ToolDeny, 1), answers(0, 0), "", ShadowSame, "deny", "deny", ""},
		{"a policy, and less", answers(abi.ToolDeny, 1), answers(0, 0), "live", ShadowChanged, "deny", "none", ""},
		{"a policy, and the same", answers(abi.ToolDeny, 1), answers(abi.ToolDeny, 2), "live", ShadowSame, "deny", "deny", "rule 2"},
		{"a failure", answers(0, 0), trap, "live", ShadowFailed, "none", "deny", "trap: "},
		{"a failure within the chain", answers(abi.ToolDeny, 1), trap, "", ShadowFailed, "deny", "deny", "trap: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := shadow(tool("next", write(t, c.shadow)), c.of)
			set, e, said := shadowed(t, tool("live", write(t, c.live)), next)
			r, records := set.Tool(t.Context(), toolFacts())
			if len(records) != 1 || records[0].Policy != "live" || r.effect() != c.was {
				t.Errorf("the chain answers %+v, %+v", r, records)
			}
			s := heard(t, said)
			if s.Policy != "next" || s.Against != c.of || s.Outcome != c.outcome || s.Was.Answer != c.was || s.Is.Answer != c.is ||
				!strings.HasPrefix(s.Is.Reason, c.isReason) || s.File == "" || s.Digest == "" || s.Is.Fact(abi.Sender) != "irc:alice" {
				t.Errorf("%+v", s)
			}
			if st := e.Status(); !st[1].Shadow || st[1].ShadowOf != c.of || st[0].Shadow || st[1].Decisions != 1 {
				t.Errorf("status %+v", st)
			}
		})
	}
}

func TestShadowOfRoutes(t *testing.T) {
	route := func(name, agent string) Source {
		return Source{Name: name, Path: write(t, routes(agent)), Kinds: []string{KindRoute}}
	}
	f := routeFacts()
	f.Agents, f.Candidate = []string{"a", "b", "c"}, "c"
	for _, c := range []struct {
		name    string
		chain   []Source
		outcome ShadowOutcome
		was, is string
	}{
		{"alone", []Source{shadow(route("next", "a"), "")}, ShadowChanged, "agent c", "agent a"},
		{"alone, and for the table's candidate", []Source{shadow(route("next", "c"), "")}, ShadowSame, "agent c", "agent c"},
		{"before who decides", []Source{shadow(route("next", "a"), ""), route("live", "b")}, ShadowChanged, "agent b", "agent a"},
		{"before who decides, abstaining", []Source{shadow(route("next", ""), ""), route("live", "b")}, ShadowSame, "agent b", "agent b"},
		{"behind who decides", []Source{route("live", "b"), shadow(route("next", "a"), "")}, ShadowSame, "agent b", ""},
		{"behind who abstains", []Source{route("live", ""), shadow(route("next", "drop"), "")}, ShadowChanged, "agent c", "drop"},
		{"of a policy", []Source{route("live", "b"), shadow(route("next", "a"), "live")}, ShadowChanged, "agent b", "agent a"},
		{"of a policy that was not asked", []Source{route("first", "a"), route("live", "b"), shadow(route("next", "c"), "live")}, ShadowSkipped, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, _, said := shadowed(t, c.chain...)
			without := engine(t, live(c.chain)...).Pin()
			defer without.Release()
			a, _ := set.Route(t.Context(), f)
			if b, _ := without.Route(t.Context(), f); a != b {
				t.Errorf("with a shadow %+v, without %+v", a, b)
			}
			if set.Digest() != without.Digest() {
				t.Error("a shadow changes the chain's digest")
			}
			if s := heard(t, said); s.Outcome != c.outcome || s.Was.Answer != c.was || s.Is.Answer != c.is {
				t.Errorf("%+v", s)
			}
		})
	}
}

func live(chain []Source) (list []Source) {
	for _, s := range chain {
		if !s.Shadow {
			list = append(list, s)
		}
	}
	return list
}

// TestASlowShadowHarmsNothing floods a shadow that spins for its whole time: the chain answers every call, and what the queue cannot
// hold is counted.
func TestASlowShadowHarmsNothing(t *testing.T) {
	// It answers the short frame that modules are warmed up with.
	spin := tool("next", write(t, w.Policy(1).Hook("flynn_tool", "", w.Loop(w.LocalGet(0), w.I32(1000), w.Op(0x4b), w.BrIf(0)), w.I64(0))))
	spin.Limits = Limits{Fuel: maxFuel, Wall: maxWall}
	set, _, said := shadowed(t, tool("live", write(t, answers(abi.ToolAsk, 1))), shadow(spin, ""))
	const n = shadowJobs + 50
	f := toolFacts()
	f.Message.Text = strings.Repeat("long ", 200)
	slowest := time.Duration(0)
	for range n {
		begin := time.Now()
		if r, records := set.Tool(t.Context(), f); !r.Ask || r.Deny || len(records) != 1 {
			t.Fatalf("%+v, %+v", r, records)
		}
		slowest = max(slowest, time.Since(begin))
	}
	for range n - shadowJobs - 1 { // one is with the shadow
		if s := heard(t, said); s.Outcome != ShadowDropped || s.Policy != "next" {
			t.Fatalf("%+v", s)
		}
	}
	if slowest >= maxWall {
		t.Errorf("a decision took %v", slowest)
	}
}

func TestShadowsUnderLoadAndSwap(t *testing.T) {
	path := write(t, answers(0, 0))
	var sources []Source
	for k := range 2 {
		sources = append(sources, shadow(tool(fmt.Sprint("shadow", k), path), "live"))
	}
	set, e, said := shadowed(t, append(sources, tool("live", path))...)
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() {
			for range 200 {
				if r, _ := set.Tool(context.Background(), toolFacts()); r.Deny {
					t.Error("denied")
				}
			}
		})
	}
	for k := range 5 {
		replace(t, path, answers(0, int64(k+1)))
		e.Refresh(t.Context())
	}
	asking.Wait()
	total := 0
	for total < 2*400 {
		if s := heard(t, said); s.Outcome != ShadowSame && s.Outcome != ShadowDropped {
			t.Fatalf("%+v", s)
		}
		total++
	}
}

// TestShadowsThatNobodyAsks need no memory: without RunShadows nothing waits.
func TestShadowsThatNobodyAsks(t *testing.T) {
	said := 0
	e, err := New(t.Context(), Config{Events: event.Only(func(Shadowed) { said++ }), Sources: []Source{shadow(tool("next", write(t, answers(1, 0))), "")}})
	if err != nil {
		t.Fatal(err)
	}
	set := e.Pin()
	for range 2 * shadowJobs {
		if r, _ := set.Tool(t.Context(), toolFacts()); r.Deny {
			t.Fatal("denied")
		}
	}
	set.Release()
	if n := len(e.shadows.jobs); n != 0 || said != 0 {
		t.Errorf("%d decisions wait, %d were published", n, said)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestAShadowThatBecomesReal is promoted without being loaded again.
func TestAShadowThatBecomesReal(t *testing.T) {
	source := tool("next", write(t, answers(abi.ToolDeny, 1)))
	set, e, _ := shadowed(t, shadow(source, ""))
	if r, _ := set.Tool(t.Context(), toolFacts()); r.Deny {
		t.Error("a shadow denies")
	}
	before := e.slots[0].module
	if err := e.Configure(t.Context(), []Source{source}); err != nil {
		t.Fatal(err)
	}
	now := e.Pin()
	defer now.Release()
	if r, _ := now.Tool(t.Context(), toolFacts()); !r.Deny || e.slots[0].module != before {
		t.Errorf("%+v; loaded again: %v", r, e.slots[0].module != before)
	}
}

func TestShadowsAreChecked(t *testing.T) {
	live := Source{Name: "live", Kinds: []string{KindTool}}
	for want, sources := range map[string][]Source{
		"shadow = true":                    {live, {Name: "s", Kinds: live.Kinds, ShadowOf: "live"}},
		`"nobody", which is no policy`:     {live, {Name: "s", Kinds: live.Kinds, Shadow: true, ShadowOf: "nobody"}},
		`"other", which is no policy`:      {live, {Name: "other", Kinds: live.Kinds, Shadow: true}, {Name: "s", Kinds: live.Kinds, Shadow: true, ShadowOf: "other"}},
		"decides about a route, and live,": {live, {Name: "s", Kinds: []string{KindTool, KindRoute}, Shadow: true, ShadowOf: "live"}},
	} {
		if err := checkSources(sources); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
