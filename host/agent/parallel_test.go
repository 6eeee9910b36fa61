package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// look is a read tool that meets others: each call waits in meet until it is let go.
type look struct {
	meet func(ctx context.Context, what string)
	mu   sync.Mutex
	now  int
	most int
	runs []string
}

func (*look) Spec() tool.Spec {
	return tool.Spec{Name: "thing.look", Description: "looks", Effect: tool.Read, Schema: json.RawMessage(
		`{"type":"object","properties":{"what":{"type":"string"}},"required":["what"],"additionalProperties":false}`)}
}

func (l *look) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var args struct{ What string }
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return tool.Result{}, err
	}
	l.mu.Lock()
	l.now++
	l.most = max(l.most, l.now)
	l.runs = append(l.runs, args.What)
	l.mu.Unlock()
	if l.meet != nil {
		l.meet(ctx, args.What)
	}
	l.mu.Lock()
	l.now--
	l.mu.Unlock()
	return tool.Result{Text: "saw " + args.What, Labels: []string{"saw:" + args.What}}, ctx.Err()
}

// several is a model that calls tools ("look a", "touch b") at once, and then says what came of them, in the order in which it is told.
func several(calls ...string) script {
	return func(_ context.Context, req model.Request) (model.Response, error) {
		if last := req.Messages[len(req.Messages)-1]; len(last.Results) > 0 {
			var texts []string
			for _, r := range last.Results {
				texts = append(texts, r.Text)
			}
			return say(strings.Join(texts, "; ")), nil
		}
		r := callTool("", "", "")
		r.Message.Calls = nil
		for i, c := range calls {
			name, what, _ := strings.Cut(c, " ")
			r.Message.Calls = append(r.Message.Calls, model.ToolCall{
				ID: fmt.Sprint("c", i), Name: "thing." + name, Args: json.RawMessage(fmt.Sprintf(`{"what":%q}`, what)),
			})
		}
		return r, nil
	}
}

func (h *house) looking(t *testing.T, l *look, limit int, calls ...string) {
	t.Helper()
	if err := h.gen.Registry.Register(l); err != nil {
		t.Fatal(err)
	}
	for _, a := range h.gen.Agents {
		a.Offered = tool.NewSet("thing.touch", "thing.look")
	}
	h.gen.Limits.ToolCalls = limit
	h.gen.Models = several(calls...)
}

// TestLooksRunSideBySide lets the first calls end last: four run at a time, and the model reads the results in its own order.
func TestLooksRunSideBySide(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	four := make(chan struct{})
	arrived := 0
	l := &look{}
	l.meet = func(ctx context.Context, what string) {
		l.mu.Lock()
		if arrived++; arrived == 4 {
			close(four)
		}
		l.mu.Unlock()
		select {
		case <-four:
		case <-time.After(time.Minute):
			t.Error("four calls never ran at a time")
		}
	}
	var counted []int
	h.chain.tool = func(f policy.ToolFacts) policy.Restrictions {
		counted = append(counted, f.CallsInTurn)
		return policy.Restrictions{Deny: string(f.Args) == `{"what":"secrets"}`, Reasons: []string{"not that"}}
	}
	h.looking(t, l, 10, "look a", "look b", "look secrets", "look c", "look d", "look e", "touch f", "look g", "look h")
	h.accept("ann", "go")
	h.work(t.Context())
	got := h.texts()[0]
	if !strings.HasPrefix(got, "saw a; saw b; refused: ") || !strings.HasSuffix(got, "; saw c; saw d; saw e; touched f; saw g; saw h") {
		t.Errorf("the model was told %q", got)
	}
	if l.most != maxSideBySide || !slices.Equal(counted, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("%d ran at a time; calls counted as %v", l.most, counted)
	}
	if slices.Index(l.runs, "g") < 5 || h.touch.counts["f"] != 1 {
		t.Errorf("the calls behind a write ran before it: %v", l.runs)
	}
	s, err := h.runner.sessions.get(t.Context(), "irc:ann:helper")
	if err != nil || !slices.Contains(s.labels, "saw:a") || !slices.Contains(s.labels, "saw:h") {
		t.Errorf("labels are %v, %v", s.labels, err)
	}
}

func TestLimitEndsLooks(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	l := &look{}
	h.looking(t, l, 2, "look a", "look b", "look c")
	h.accept("ann", "go")
	h.work(t.Context())
	h.want("I could not answer this: the turn used its 2 tool calls.")
	if len(l.runs) != 2 || l.now != 0 {
		t.Errorf("ran %v, %d still run", l.runs, l.now)
	}
}

// TestAskComesAfterLooks wants calls before one that needs a person to have ended when the person is asked, and it to be asked once.
func TestAskComesAfterLooks(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	l := &look{}
	h.chain.tool = func(f policy.ToolFacts) policy.Restrictions {
		if string(f.Args) == `{"what":"c"}` {
			return policy.Restrictions{Ask: true}
		}
		return policy.Restrictions{}
	}
	h.looking(t, l, 10, "look a", "look b", "look c", "look d")
	h.accept("ann", "go")
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.work(t.Context())
	}()
	id := <-h.asked
	l.mu.Lock()
	if l.now != 0 || len(l.runs) != 2 {
		t.Errorf("asked while %d calls run; so far %v", l.now, l.runs)
	}
	l.mu.Unlock()
	if err := h.approvals.Decide(t.Context(), id, true, "irc:boss"); err != nil {
		t.Fatal(err)
	}
	<-h.asked // that it was decided
	<-done
	h.want("saw a; saw b; saw c; saw d")
	if all, err := h.store.(interface {
		ListApprovals(context.Context, consent.ApprovalState, int) ([]consent.Approval, error)
	}).ListApprovals(t.Context(), consent.ApprovalConsumed, 10); err != nil || len(all) != 1 {
		t.Errorf("approvals: %+v, %v", all, err)
	}
}

// TestCrashBesideOthers ends the host while three calls run: none of them runs again, and what had not begun does.
func TestCrashBesideOthers(t *testing.T) {
	s := openStore(t)
	h := newHouse(t, s, nil)
	ctx, down := context.WithCancel(t.Context())
	l := &look{}
	started := 0
	l.meet = func(ctx context.Context, what string) {
		l.mu.Lock()
		if started++; started == 3 {
			down()
		}
		l.mu.Unlock()
		<-ctx.Done()
	}
	h.looking(t, l, 10, "look a", "look b", "look c", "touch d")
	h.accept("ann", "go")
	h.work(ctx)
	if len(h.texts()) != 0 || l.now != 0 {
		t.Fatalf("replies %q, %d calls run", h.texts(), l.now)
	}
	h = newHouse(t, s, nil)
	again := &look{}
	h.looking(t, again, 10, "nothing else")
	h.work(t.Context())
	if want := strings.Repeat((transcript.ToolStart{}).Interrupted().Result.Text+"; ", 3) + "touched d"; len(h.texts()) != 1 || h.texts()[0] != want {
		t.Errorf("replies are %q", h.texts())
	}
	if len(again.runs) != 0 || h.touch.counts["d"] != 1 {
		t.Errorf("ran again: %v, touched %v", again.runs, h.touch.counts)
	}
}

// TestStopEndsLooks wants a person's stop to end calls under way, with their results kept.
func TestStopEndsLooks(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	l := &look{}
	l.meet = func(ctx context.Context, _ string) {
		h.runner.Stop("irc:ann")
		<-ctx.Done()
	}
	h.looking(t, l, 10, "look a", "look b")
	h.accept("ann", "go")
	h.work(t.Context())
	h.want("Stopped.")
}

// machineLook is look on a machine, so that elevated mode is about it.
type machineLook struct{ look }

func (l *machineLook) Spec() tool.Spec {
	s := l.look.Spec()
	s.Machine = true
	return s
}

// TestElevatedLooksAreWrittenDown makes reads leave the sandbox, alone and side by side.
func TestElevatedLooksAreWrittenDown(t *testing.T) {
	for _, calls := range [][]string{{"look a"}, {"look a", "look b"}, {"look a", "look b", "look c"}} {
		h := newHouse(t, openStore(t), nil)
		l := &machineLook{}
		h.looking(t, &l.look, 5, calls...)
		if err := h.gen.Registry.Replace(l); err != nil {
			t.Fatal(err)
		}
		h.gen.Agents["helper"].Sandboxed = true
		h.on.elevation = func() tool.Elevation {
			return tool.Elevation{Enabled: true, Sender: true, Agent: true, State: tool.ElevatedAsk, By: "irc:ann"}
		}
		var written []string
		h.on.elevated = func(v tool.Decision) error {
			written = append(written, v.Where+" "+string(v.Args))
			return nil
		}
		h.accept("ann", "go")
		h.work(t.Context())
		if len(written) != len(calls) {
			t.Errorf("%d reads left the sandbox, written down: %q", len(calls), written)
		}
	}
}
