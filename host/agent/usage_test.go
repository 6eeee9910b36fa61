package agent

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
)

// priced answers as caller does, and each answer has used something.
func priced(ctx context.Context, req model.Request) (model.Response, error) {
	r, err := calling(ctx, req)
	r.Usage = model.Usage{Input: 100, Output: 10, CacheRead: 1000, CacheWrite: 5, CostUSD: 0.0000015}
	return r, err
}

// seen collects what policies were told.
type seen struct {
	route []policy.RouteFacts
	tool  []policy.ToolFacts
}

func (s *seen) watch(r *room) *room {
	r.gen.Models = script(priced)
	r.chain.route = func(f policy.RouteFacts) policy.RouteAnswer {
		s.route = append(s.route, f)
		return policy.RouteAnswer{}
	}
	r.chain.tool = func(f policy.ToolFacts) policy.Restrictions {
		s.tool = append(s.tool, f)
		return policy.Restrictions{Deny: f.Tool == "page.read"}
	}
	return r
}

// TestPoliciesAreToldOfTheUsage: one answer costs 1115 tokens and one and a half millionths of a dollar; a message with one call
// takes two of them.
func TestPoliciesAreToldOfTheUsage(t *testing.T) {
	var s seen
	r := s.watch(newRoom(t, openStore(t), workspace(t)))
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	r.runner.cfg.Now = clock
	r.say(said{text: "probe.look {}"})
	now = now.Add(90 * time.Second)
	r.say(said{text: "probe.look {}\npage.read {}\nprobe.look {}"})

	other := s.watch(newRoom(t, r.store, r.host)) // another process
	other.runner.cfg.Now = clock
	now = now.Add(10 * time.Second)
	other.say(said{text: "probe.look {}"})
	now = now.Add(-time.Hour) // the clock is set back
	other.say(said{text: "hello"})

	const answer = 1115
	wantRoute := []policy.Usage{
		{},
		{Turns: 1, Tokens: 2 * answer, Cost: 3, Age: 90 * time.Second},
		{Turns: 2, Tokens: 6 * answer, Cost: 9, Age: 100 * time.Second},
		{Turns: 3, Tokens: 8 * answer, Cost: 12},
	}
	for i, f := range s.route {
		if f.Used != wantRoute[i] || f.Candidate != "helper" {
			t.Errorf("route %d was told %+v, want %+v", i, f.Used, wantRoute[i])
		}
	}
	wantTool := []struct {
		used  policy.Usage
		calls int
	}{
		{policy.Usage{Tokens: answer, Cost: 2}, 0},
		{policy.Usage{Turns: 1, Tokens: 3 * answer, Cost: 5, Age: 90 * time.Second}, 0},
		{policy.Usage{Turns: 1, Tokens: 4 * answer, Cost: 6, Age: 90 * time.Second}, 1},
		{policy.Usage{Turns: 1, Tokens: 5 * answer, Cost: 8, Age: 90 * time.Second}, 2}, // the denied call counts
		{policy.Usage{Turns: 2, Tokens: 7 * answer, Cost: 11, Age: 100 * time.Second}, 0},
	}
	if len(s.route) != len(wantRoute) || len(s.tool) != len(wantTool) {
		t.Fatalf("asked %d and %d times", len(s.route), len(s.tool))
	}
	for i, f := range s.tool {
		if f.Used != wantTool[i].used || f.CallsInTurn != wantTool[i].calls {
			t.Errorf("call %d was told %+v after %d calls, want %+v", i, f.Used, f.CallsInTurn, wantTool[i])
		}
	}
}

// TestUsageOfASessionOfAnOlderVersion: turns that recorded nothing are counted as far as they are read back.
func TestUsageOfASessionOfAnOlderVersion(t *testing.T) {
	r := newRoom(t, openStore(t), workspace(t))
	began := time.Now().Add(-time.Hour).UTC()
	step := func(seq int, kind turnlog.StepKind, data string) turnlog.Step {
		return turnlog.Step{Turn: "0", Seq: seq, Kind: kind, Data: []byte(data), At: began}
	}
	err := r.store.CommitTurn(t.Context(), turnlog.Commit{
		Turn: turnlog.Turn{ID: "0", Session: "terminal:me:helper", Agent: "helper", State: turnlog.TurnDone, Started: began},
		Steps: []turnlog.Step{
			step(0, turnlog.StepUser, `{"said":[{"event":"e","text":"hello"}],"generation":1}`),
			step(1, turnlog.StepModel, `{"message":{"role":"assistant","text":"hi"},"usage":{"input":7,"output":3,"cost_usd":0.5}}`),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var s seen
	s.watch(r).say(said{text: "hello"})
	if u := s.route[0].Used; u.Turns != 1 || u.Tokens != 10 || u.Cost != 500_000 || u.Age < time.Hour {
		t.Errorf("told %+v", u)
	}
}

// TestUsageOfATurnThatIsTakenUp: a turn that was killed is not one that came before itself, and what it has used counts.
func TestUsageOfATurnThatIsTakenUp(t *testing.T) {
	s := openStore(t)
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	first := newRoom(t, s, workspace(t))
	asked := 0
	first.gen.Models = script(func(ctx context.Context, req model.Request) (model.Response, error) {
		if asked++; asked == 2 {
			kill()
			return model.Response{}, ctx.Err()
		}
		return priced(ctx, req)
	})
	first.accept("ann", "probe.look {}\nprobe.look {}")
	first.work(ctx)

	var told seen
	second := told.watch(newRoom(t, s, first.host))
	second.work(t.Context())
	if len(told.tool) != 1 || told.tool[0].Used.Turns != 0 || told.tool[0].Used.Tokens != 2*1115 || told.tool[0].CallsInTurn != 1 {
		t.Errorf("told %+v", told.tool)
	}
	second.accept("ann", "hello")
	second.work(t.Context())
	if u := told.route[len(told.route)-1].Used; u.Turns != 1 || u.Tokens != 3*1115 {
		t.Errorf("the next message was routed by %+v", u)
	}
}

// TestNobodyAnswersOnFactsThatCannotBeRead: a policy that cannot be told the truth is not asked, and the message not answered past it.
func TestNobodyAnswersOnFactsThatCannotBeRead(t *testing.T) {
	s := openStore(t)
	newRoom(t, s, workspace(t)).say(said{text: "hello"})
	r := newRoom(t, s, workspace(t))
	var told seen
	told.watch(r)
	r.house.runner.sessions = newSessions(unreadable{s})
	r.accept("me", "hello") // irc:me is another session, which does not exist
	r.work(t.Context())
	if len(told.route) != 1 {
		t.Fatalf("a session that does not exist is no trouble: asked %d times", len(told.route))
	}
	r.say(said{text: "hello again"}) // by the event of the turn before
	if len(told.route) != 1 || len(r.texts()) != 1 {
		t.Errorf("asked %d times, replies %q", len(told.route), r.texts())
	}
}

// unreadable is a store whose transcripts cannot be read.
type unreadable struct{ Store }

func (unreadable) TranscriptAfter(context.Context, message.SessionKey, string, int) ([]turnlog.Step, error) {
	return nil, errors.New("disk on fire")
}

func TestMicros(t *testing.T) {
	for usd, want := range map[float64]int64{
		0: 0, -1: 0, 1: 1_000_000, 0.0000014: 1, math.Inf(1): 9e18, math.Inf(-1): 0, math.NaN(): 0, 1e300: 9e18,
	} {
		if got := micros(usd); got != want {
			t.Errorf("%g dollars are %d, want %d", usd, got, want)
		}
	}
}

// BenchmarkLook is what routing pays for a session that is at hand.
func BenchmarkLook(b *testing.B) {
	c := newSessions(nil)
	c.keep(&session{key: "irc:ann:helper", count: 1})
	for b.Loop() {
		if s, err := c.look(b.Context(), "irc:ann:helper"); err != nil || s.count != 1 {
			b.Fatal(err)
		}
	}
}
