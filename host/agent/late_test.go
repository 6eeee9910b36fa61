package agent

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
)

// dice is a tool of a plugin, about each call of which a person is asked.
type dice struct{ rolled atomic.Int32 }

func (*dice) Spec() tool.Spec {
	return tool.Spec{Name: "dice.roll", Effect: tool.Execute, Provider: "dice", Approve: tool.ApproveAlways, Digest: "d1"}
}

func (d *dice) Run(_ context.Context, c tool.Call) (tool.Result, error) {
	d.rolled.Add(1)
	return tool.Result{Text: "rolled " + string(c.Args)}, nil
}

// rolling is a model that rolls the dice once and says what tools it was offered.
func rolling(_ context.Context, req model.Request) (model.Response, error) {
	last := req.Messages[len(req.Messages)-1]
	var names []string
	for _, t := range req.Tools {
		names = append(names, t.Name)
	}
	if len(last.Results) > 0 {
		return say(last.Results[0].Text + " of " + strings.Join(names, ",")), nil
	}
	if last.Text == "!roll" {
		return callTool("c1", "dice.roll", `{"sides":"<6>"}`), nil
	}
	return say("offered " + strings.Join(names, ",")), nil
}

// lateHouse is a house in which the plugin of the dice comes up, or is given up, when the test says so.
func lateHouse(t *testing.T, s *sqlite.Store, d *dice) (h *house, up func(there bool)) {
	h = newHouse(t, s, nil)
	without := h.gen
	without.Models = script(rolling)
	without.Late = map[string][]string{"helper": {"dice"}}
	with := *without
	with.Late, with.Agents, with.Registry = nil, map[string]*Agent{}, without.Registry.Clone()
	if err := with.Registry.Register(d); err != nil {
		t.Fatal(err)
	}
	for name, a := range without.Agents {
		more := *a
		more.Offered = tool.NewSet("thing.touch", "dice.roll")
		more.Tools = with.Registry.ForModel(more.Offered)
		with.Agents[name] = &more
	}
	givenUp := *without
	givenUp.Late = nil
	var now atomic.Pointer[Generation]
	now.Store(without)
	h.on.generation = func() (*Generation, Policies) { return now.Load(), h.chain }
	return h, func(there bool) {
		if there {
			now.Store(&with)
		} else {
			now.Store(&givenUp)
		}
	}
}

// killedWhileAsking leaves a turn whose call waits for an approval, as a kill does, and returns the request.
func killedWhileAsking(t *testing.T, s *sqlite.Store, d *dice) (id string) {
	t.Helper()
	h, up := lateHouse(t, s, d)
	up(true)
	h.accept("ann", "!roll")
	ctx, kill := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { h.work(ctx) })
	id = <-h.asked
	kill()
	done.Wait()
	return id
}

// TestWorkWaitsForItsTools starts a host with a call that waits for an approval, a message and a cut model call, before its plugin is up.
func TestWorkWaitsForItsTools(t *testing.T) {
	s, d := openStore(t), &dice{}
	id := killedWhileAsking(t, s, d)
	var done sync.WaitGroup
	h, up := lateHouse(t, s, d)
	h.accept("bob", "what have you?")
	done.Go(func() { h.work(t.Context()) })
	select {
	case <-h.asked:
		t.Fatal("the call goes on before its plugin is up")
	case <-time.After(3 * lookAgain):
	}
	if len(h.texts()) > 0 {
		t.Fatalf("answered before the plugin is up: %q", h.texts())
	}
	up(true)
	if again := <-h.asked; again != id {
		t.Errorf("asked about anew, as %s after %s", again, id)
	}
	if err := h.approvals.Decide(t.Context(), id, true, "web:owner"); err != nil {
		t.Fatal(err)
	}
	done.Wait()
	h.want(`rolled {"sides":"<6>"} of dice.roll,thing.touch`, "offered dice.roll,thing.touch")
	if d.rolled.Load() != 1 {
		t.Errorf("rolled %d times", d.rolled.Load())
	}
	waits, err := s.ListDecisions(t.Context(), journal.DecisionFilter{Kind: "wait"})
	if err != nil || len(waits) == 0 || waits[0].Turn == "" || waits[0].Reason != "for the tools of dice" {
		t.Errorf("the log of decisions has %+v, error %v", waits, err)
	}
}

// TestWorkGoesOnWithoutAToolThatIsGivenUp says so, and ends the request of the call that cannot run.
func TestWorkGoesOnWithoutAToolThatIsGivenUp(t *testing.T) {
	s, d := openStore(t), &dice{}
	id := killedWhileAsking(t, s, d)
	var done sync.WaitGroup
	h, up := lateHouse(t, s, d)
	done.Go(func() { h.work(t.Context()) })
	time.Sleep(2 * lookAgain)
	up(false)
	done.Wait()
	if got := h.texts(); len(got) != 1 || !strings.Contains(got[0], "not offered") || d.rolled.Load() != 0 {
		t.Errorf("answered %q", got)
	}
	if err := h.approvals.Decide(t.Context(), id, true, "web:owner"); !errors.Is(err, approval.ErrGone) {
		t.Errorf("approved a call that cannot run: %v", err)
	}
	waits, err := s.ListDecisions(t.Context(), journal.DecisionFilter{Kind: "wait"})
	if err != nil || len(waits) != 1 || !strings.Contains(waits[0].Reason, "goes on without those of dice") {
		t.Errorf("the log of decisions has %+v, error %v", waits, err)
	}
}
