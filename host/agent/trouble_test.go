package agent

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/store"
)

// hanging is a store that hangs at every other commit. A commit that is given up happens all the same.
type hanging struct {
	Store
	takes time.Duration
	hung  bool
}

func (s *hanging) CommitTurn(ctx context.Context, c turnlog.Commit) error {
	if s.hung = !s.hung; !s.hung {
		return s.Store.CommitTurn(ctx, c)
	}
	done := make(chan error, 1)
	go func() { // ends with the commit
		time.Sleep(s.takes)
		done <- s.Store.CommitTurn(context.WithoutCancel(ctx), c)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		time.Sleep(s.takes)
		return ctx.Err()
	}
}

// TestASlowCommitIsNotTakenForSomebodyElses has a disk that hangs for longer than anybody would wait. The commit of each step
// and of the reply happens in the end, and the reply is handed on.
func TestASlowCommitIsNotTakenForSomebodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, openStore(t), func(s Store) Store { return &hanging{Store: s, takes: time.Minute} })
		h.gen.Limits.Time = time.Hour
		h.accept("ann", "!touch wood")
		h.work(t.Context())
		h.want("did: touched wood")
		if items, err := Recover(t.Context(), h.store); len(items) != 0 || err != nil {
			t.Fatalf("left over: %+v, %v", items, err)
		}
	})
}

// TestAnEndingHostDropsNothing ends the host while a policy is asked. The policy fails closed, as it must; that is no
// decision, and the next process asks again.
func TestAnEndingHostDropsNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		chain func(end context.CancelFunc) chain
	}{
		{"while a message is routed", func(end context.CancelFunc) chain {
			return chain{route: func(policy.RouteFacts) policy.RouteAnswer {
				end()
				return policy.RouteAnswer{Decided: true, Failed: true, Reason: "context canceled"}
			}}
		}},
		{"while a tool call is judged", func(end context.CancelFunc) chain {
			return chain{tool: func(policy.ToolFacts) policy.Restrictions {
				end()
				return policy.Restrictions{Deny: true, Reasons: []string{"test: context canceled"}}
			}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 20 { // what the store is asked with a context that has ended may happen or not
				s := openStore(t)
				ctx, end := context.WithCancel(t.Context())
				h := newHouse(t, s, nil)
				h.chain = c.chain(end)
				h.accept("ann", "!touch wood")
				h.work(ctx)
				if ctx.Err() == nil {
					t.Fatal("no policy was asked")
				}
				h = newHouse(t, s, nil)
				h.work(t.Context())
				h.want("did: touched wood")
			}
		})
	}
}

// TestAPanicEndsOneTurn is a bug anywhere below a turn: its sender is told, everybody else is answered.
func TestAPanicEndsOneTurn(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	h.gen.Models = script(func(ctx context.Context, req model.Request) (model.Response, error) {
		if req.Messages[len(req.Messages)-1].Text == "bang" {
			panic("a bug")
		}
		return parrot(ctx, req)
	})
	h.accept("ann", "bang")
	h.accept("bob", "hello")
	h.work(t.Context())
	h.want("I could not answer this: something broke inside the host. The operator's log says what.", "echo: hello")
	if len(h.runner.running) != 0 || len(h.runner.slots) != 0 {
		t.Fatal("the turn is still counted as running")
	}
	h.accept("ann", "hello again")
	h.work(t.Context())
	if got := h.texts(); got[len(got)-1] != "echo: hello again" {
		t.Fatalf("replies are %q", got)
	}
}

// TestAPanicWhileRouting sets the message aside instead of trying it for ever.
func TestAPanicWhileRouting(t *testing.T) {
	s := openStore(t)
	h := newHouse(t, s, nil)
	h.chain.route = func(f policy.RouteFacts) policy.RouteAnswer {
		if f.Message.Text == "bang" {
			panic("a bug")
		}
		return policy.RouteAnswer{}
	}
	h.accept("ann", "bang")
	h.accept("bob", "hello")
	h.work(t.Context())
	h.want("echo: hello")
	if items, err := Recover(t.Context(), s); len(items) != 0 || err != nil {
		t.Fatalf("left over: %+v, %v", items, err)
	}
}

// TestAClockThatStepsBack keeps the order of a conversation, which the next process reads back.
func TestAClockThatStepsBack(t *testing.T) {
	s, noon := openStore(t), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var seen []string
	for n, back := range []time.Duration{0, time.Hour, 24 * time.Hour, 0} {
		h := newHouse(t, s, nil) // another process each time
		h.runner.cfg.Now = func() time.Time { return noon.Add(-back) }
		h.gen.Models = script(func(_ context.Context, req model.Request) (model.Response, error) {
			seen = nil
			for _, m := range req.Messages {
				seen = append(seen, m.Text)
			}
			return say(fmt.Sprint("a", n)), nil
		})
		h.accept("ann", fmt.Sprint("q", n))
		h.work(t.Context())
	}
	if want := []string{"q0", "a0", "q1", "a1", "q2", "a2", "q3"}; !slices.Equal(seen, want) {
		t.Fatalf("the model was shown %q, want %q", seen, want)
	}
}

// TestAMessageThatNobodyAnswersIsLogged is for the operator who wonders why there is silence.
func TestAMessageThatNobodyAnswersIsLogged(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	var log bytes.Buffer
	h.runner.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	h.chain.route = func(policy.RouteFacts) policy.RouteAnswer {
		return policy.RouteAnswer{Decided: true, Policy: "night", Reason: "out of fuel", Failed: true}
	}
	h.accept("ann", "hello")
	h.work(t.Context())
	if got := log.String(); !strings.Contains(got, "not answered") || !strings.Contains(got, "out of fuel") || !strings.Contains(got, "sender=ann") {
		t.Fatalf("the log says %q", got)
	}
}

// lacking is a store that cannot be read for a while, for want of descriptors.
type lacking struct {
	Store
	times int
}

func (s *lacking) lack() error {
	if s.times--; s.times < 0 {
		return nil
	}
	return fmt.Errorf("%w: unable to open database file (14)", store.ErrPassing)
}

func (s *lacking) Transcript(ctx context.Context, session string, turns int) ([]turnlog.Step, error) {
	if err := s.lack(); err != nil {
		return nil, err
	}
	return s.Store.Transcript(ctx, session, turns)
}

func (s *lacking) Steps(ctx context.Context, turn string) ([]turnlog.Step, error) {
	if err := s.lack(); err != nil {
		return nil, err
	}
	return s.Store.Steps(ctx, turn)
}

// TestAPassingLackDelaysAMessage cannot read the conversation back for a while, nor the turn that an earlier process left.
func TestAPassingLackDelaysAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		h := newHouse(t, s, func(s Store) Store { return &lacking{Store: s, times: 100} })
		h.accept("ann", "hello")
		h.work(t.Context())
		h.want("echo: hello")

		ctx, kill := context.WithCancel(t.Context())
		h.touch.during = func(context.Context) { kill() }
		h.accept("ann", "!touch wood")
		h.work(ctx)
		h = newHouse(t, s, func(s Store) Store { return &lacking{Store: s, times: 100} })
		h.work(t.Context())
		if got := h.texts(); len(got) != 1 || !strings.Contains(got[0], "restarted while this call ran") {
			t.Errorf("the turn that was left ended with %q", got)
		}
	})
}

// taken is a store whose conversation another host takes after some commits.
type taken struct {
	Store
	left    int
	refused int
}

func (s *taken) CommitTurn(ctx context.Context, c turnlog.Commit) error {
	if s.left--; s.left >= 0 {
		return s.Store.CommitTurn(ctx, c)
	}
	s.refused++
	return fmt.Errorf("conversation irc:ann: %w", store.ErrFenced)
}

// TestATakenConversationIsLeftAlone has another host take a conversation at each commit of a turn. The turn ends here at once, without a
// reply and without further attempts, and stays running in the store for the other host.
func TestATakenConversationIsLeftAlone(t *testing.T) {
	for left := range 3 {
		synctest.Test(t, func(t *testing.T) {
			s := openStore(t)
			w := &taken{left: left}
			h := newHouse(t, s, func(s Store) Store { w.Store = s; return w })
			if left == 2 { // by itself, before the answer of the model
				h.gen.Models = script(func(ctx context.Context, req model.Request) (model.Response, error) {
					time.Sleep(time.Second)
					return parrot(ctx, req)
				})
			}
			h.accept("ann", "!touch wood")
			items, err := Recover(t.Context(), h.store)
			if err != nil || len(items) != 1 {
				t.Fatalf("%+v, %v", items, err)
			}
			if rest := h.runner.Work(t.Context(), items[0].Key(), items); len(rest) != 0 {
				t.Errorf("left to the queue: %+v", rest)
			}
			h.want()
			if w.refused != 1 {
				t.Errorf("%d commits were tried after the conversation was taken, want 1", w.refused)
			}
			if len(h.runner.running) != 0 || len(h.runner.slots) != 0 {
				t.Error("the turn is still counted as running")
			}
			h = newHouse(t, s, nil) // the other host
			h.work(t.Context())
			if len(h.replies) != 1 {
				t.Errorf("the other host replies %q", h.texts())
			}
		})
	}
}
