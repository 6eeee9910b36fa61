package children

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool"
)

// fake is a child that notes what is asked of it.
type fake struct {
	turn   turnlog.Turn
	begin  error
	run    func(ctx context.Context) turnlog.TurnState // nil ends well
	did    []string
	failed error
}

func (f *fake) Turn() turnlog.Turn { return f.turn }

func (f *fake) Begin(context.Context) error {
	f.did = append(f.did, "begin")
	return f.begin
}

func (f *fake) Run(ctx context.Context) {
	f.did = append(f.did, "run")
	f.turn.State = turnlog.TurnDone
	if f.run != nil {
		f.turn.State = f.run(ctx)
	}
}

func (f *fake) Fail(_ context.Context, cause error) {
	f.did, f.failed, f.turn.State = append(f.did, "fail"), cause, turnlog.TurnFailed
}

func (f *fake) Ended() bool { return f.turn.State != turnlog.TurnRunning }

func (f *fake) Result() tool.Result { return tool.Result{Text: string(f.turn.State)} }

// around is the queue and the inbox.
type around struct {
	queued  []string
	refuses int // so many messages before the inbox takes one
	taken   []message.Message
}

func (a *around) PushChild(t turnlog.Turn) { a.queued = append(a.queued, t.ID) }

func (a *around) Accept(_ context.Context, m message.Message) error {
	if a.refuses--; a.refuses >= 0 {
		return errors.New("database or disk is full")
	}
	a.taken = append(a.taken, m)
	return nil
}

func supervisor() (*Supervisor, *around) {
	a := &around{}
	return New(Config{Queue: a, Inbox: a, Log: slog.New(slog.DiscardHandler)}), a
}

func turn(id string, state turnlog.TurnState, background bool) turnlog.Turn {
	return turnlog.Turn{
		ID: id, Session: message.Session{Scope: "irc:ann", Agent: "helper", Epoch: 1}.Key().Child(id), Channel: "irc",
		Conversation: message.Conversation{ID: "ann"}, State: state, Background: background,
	}
}

var errGone = errors.New("the agent is no longer configured")

// TestWays has one case of each way that a child can go.
func TestWays(t *testing.T) {
	start := func(s *Supervisor, c Child) (tool.Result, error) { return s.Start(context.Background(), c) }
	takeUp := func(broken error) func(*Supervisor, Child) (tool.Result, error) {
		return func(s *Supervisor, c Child) (tool.Result, error) { return s.TakeUp(context.Background(), c, broken) }
	}
	work := func(broken error) func(*Supervisor, Child) (tool.Result, error) {
		return func(s *Supervisor, c Child) (tool.Result, error) {
			s.Work(context.Background(), c, broken)
			return tool.Result{}, nil
		}
	}
	running := func(context.Context) turnlog.TurnState { return turnlog.TurnRunning }
	full := errors.New("disk is full")
	for name, c := range map[string]struct {
		child  fake
		do     func(*Supervisor, Child) (tool.Result, error)
		did    []string
		queued bool
		text   string
		err    error
		failed error
	}{
		"started":                         {child: fake{turn: turn("c", "running", false)}, do: start, did: []string{"begin", "run"}, text: "done"},
		"started in the background":       {child: fake{turn: turn("c", "running", true)}, do: start, did: []string{"begin"}, queued: true, text: "running"},
		"not begun":                       {child: fake{turn: turn("c", "running", false), begin: full}, do: start, did: []string{"begin"}, err: full},
		"not begun in the background":     {child: fake{turn: turn("c", "running", true), begin: full}, do: start, did: []string{"begin"}, err: full},
		"not brought to its end":          {child: fake{turn: turn("c", "running", false), run: running}, do: start, did: []string{"begin", "run"}, err: ErrNotEnded},
		"taken up":                        {child: fake{turn: turn("c", "running", false)}, do: takeUp(nil), did: []string{"run"}, text: "done"},
		"taken up, and it has ended":      {child: fake{turn: turn("c", "failed", false)}, do: takeUp(errGone), text: "failed"},
		"taken up, and it is broken":      {child: fake{turn: turn("c", "running", false)}, do: takeUp(errGone), did: []string{"fail"}, text: "failed", failed: errGone},
		"taken up, in the background":     {child: fake{turn: turn("c", "running", true)}, do: takeUp(errGone), text: "running"},
		"taken up, and cut off again":     {child: fake{turn: turn("c", "running", false), run: running}, do: takeUp(nil), did: []string{"run"}, err: ErrNotEnded},
		"worked on":                       {child: fake{turn: turn("c", "running", true)}, do: work(nil), did: []string{"run"}},
		"worked on, and it is broken":     {child: fake{turn: turn("c", "running", true)}, do: work(errGone), did: []string{"fail"}, failed: errGone},
		"worked on, and its parent ended": {child: fake{turn: turn("c", "running", false)}, do: work(nil), did: []string{"fail"}, failed: ErrOrphaned},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := supervisor()
			res, err := c.do(s, &c.child)
			if !errors.Is(err, c.err) || res.Text != c.text || !slices.Equal(c.child.did, c.did) || c.child.failed != c.failed {
				t.Errorf("did %q, result %q (%v), failed with %v", c.child.did, res.Text, err, c.child.failed)
			}
			if (len(a.queued) == 1) != c.queued || s.Any(func(turnlog.Turn) bool { return true }) != c.queued {
				t.Errorf("queued %q, known: %v", a.queued, !c.queued)
			}
		})
	}
}

// TestStop stops children before they run, while they run and after they have, and no others.
func TestStop(t *testing.T) {
	s, _ := supervisor()
	stopped := errors.New("stopped")
	waits, runs := &fake{turn: turn("waits", "running", true)}, &fake{turn: turn("runs", "running", true)}
	other := &fake{turn: turn("other", "running", true)}
	other.turn.Session, other.turn.Conversation.ID = message.Session{Scope: "irc:bob", Agent: "helper", Epoch: 1}.Key(), "bob"
	contexts := map[string]context.Context{}
	watch := func(f *fake) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s.Watch(f.turn, cancel)
		contexts[f.turn.ID] = ctx
	}
	for _, f := range []*fake{waits, runs, other} {
		if _, err := s.Start(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	watch(runs)
	watch(other)
	if !s.Stop(stopped, InScope("irc:ann")) || !s.Any(InConversation("irc:ann")) || s.Stop(stopped, InScope("irc:eve")) {
		t.Error("the wrong children are found")
	}
	watch(waits)
	for id, want := range map[string]error{"waits": stopped, "runs": stopped, "other": nil} {
		if got := context.Cause(contexts[id]); got != want {
			t.Errorf("%s: %v", id, got)
		}
	}
	s.Drop("waits")
	s.Drop("runs")
	if s.Any(InScope("irc:ann")) || !s.Any(InScope("irc:bob")) {
		t.Error("what has ended is still known, or what has not is forgotten")
	}
}

// TestAChildEndsWithItsCall gives the child the context of its parent's call.
func TestAChildEndsWithItsCall(t *testing.T) {
	s, _ := supervisor()
	ctx, cancel := context.WithCancel(t.Context())
	c := &fake{turn: turn("c", "running", false), run: func(ctx context.Context) turnlog.TurnState {
		cancel()
		<-ctx.Done()
		return turnlog.TurnStopped
	}}
	if res, err := s.Start(ctx, c); err != nil || res.Text != "stopped" {
		t.Errorf("%q (%v)", res.Text, err)
	}
}

func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := supervisor()
		a.refuses = 3
		began := time.Now()
		if !s.HandOver(t.Context(), "c", message.Message{EventID: "delegate/c"}) || len(a.taken) != 1 || time.Since(began) != 3*retry {
			t.Errorf("taken %v after %s", a.taken, time.Since(began))
		}
		a.refuses = 1 << 30
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if s.HandOver(ctx, "c", message.Message{}) || time.Since(began) > 2*time.Minute {
			t.Error("it is said to be handed over")
		}
	})
}

func TestShare(t *testing.T) {
	limits := transcript.Limits{Tokens: 100, ToolCalls: 9}
	for _, c := range []struct{ spent, want transcript.Spent }{
		{transcript.Spent{}, transcript.Spent{Tokens: 33, ToolCalls: 3}},
		{transcript.Spent{Tokens: 70, ToolCalls: 8}, transcript.Spent{Tokens: 10}},
		{transcript.Spent{Tokens: 170, ToolCalls: 80}, transcript.Spent{}},
	} {
		if got := Share(limits, c.spent, 2); got != c.want {
			t.Errorf("after %+v: %+v", c.spent, got)
		}
	}
}
