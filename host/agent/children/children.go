// Package children supervises turns that other turns have begun: it starts them, waits for them, stops them, takes them up again after a
// restart, and hands over what those in the background say.
//
// Start with Supervisor. It knows nothing of models, tools and rows: how a child is made, how it runs and what comes of it is asked of the
// Child, which package agent implements.
package children

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool"
)

// Child is one delegated turn.
type Child interface {
	// Turn is the turn as it stands.
	Turn() turnlog.Turn
	// Begin makes the child durable, so that it is made once whatever happens.
	Begin(ctx context.Context) error
	// Run runs the child until it ends, or ctx does.
	Run(ctx context.Context)
	// Fail ends the child without running it.
	Fail(ctx context.Context, cause error)
	// Ended reports whether the child has come to its end, and that is durable.
	Ended() bool
	// Result is what the call that began the child gets: for one in the background that it works, for any other what came of it.
	Result() tool.Result
}

// Queue takes children in the background, to be worked on beside their conversations.
type Queue interface {
	// PushChild must not block.
	PushChild(t turnlog.Turn)
}

// Inbox takes what children in the background say, each event once; *channel.Inbox implements it.
type Inbox interface {
	Accept(ctx context.Context, m message.Message) error
}

// Config is what a Supervisor works with. All of it is required.
type Config struct {
	Queue Queue
	Inbox Inbox
	Log   *slog.Logger
}

// Supervisor looks after the children of all turns.
type Supervisor struct {
	cfg Config

	mu sync.Mutex
	by map[string]*background // by turn
}

// background is a child in the background. One that waits for its place among the working turns has no way to be ended yet; that it was
// stopped is remembered until it has.
type background struct {
	turn    turnlog.Turn
	cancel  context.CancelCauseFunc // nil before it runs
	stopped error                   // why it is not to run
}

// New returns a supervisor.
func New(cfg Config) *Supervisor { return &Supervisor{cfg: cfg, by: map[string]*background{}} }

// Causes for the end of a child.
var (
	ErrOrphaned = errors.New("the turn that asked for this has ended")
	ErrNotEnded = errors.New("the delegated turn was not brought to its end")
)

// Start begins a child. It waits for the end of one that is not in the background, and then returns what came of it. ctx is that of the
// parent's call: with it the child ends.
func (s *Supervisor) Start(ctx context.Context, c Child) (tool.Result, error) {
	if err := c.Begin(ctx); err != nil {
		return tool.Result{}, fmt.Errorf("begin a delegated turn: %w", err)
	}
	if t := c.Turn(); t.Background {
		s.expect(t)
		s.cfg.Queue.PushChild(t)
		return c.Result(), nil
	}
	return wait(ctx, c)
}

// wait runs a child within its parent's call.
func wait(ctx context.Context, c Child) (tool.Result, error) {
	c.Run(ctx)
	if !c.Ended() { // the host goes down, or the store has settled it otherwise
		return tool.Result{}, errors.Join(ctx.Err(), ErrNotEnded)
	}
	return c.Result(), nil
}

// TakeUp is Start for a child that an earlier process began. broken is why it cannot go on as things are, or nil.
func (s *Supervisor) TakeUp(ctx context.Context, c Child, broken error) (tool.Result, error) {
	t := c.Turn()
	switch {
	case t.Background, c.Ended():
		return c.Result(), nil
	case broken != nil:
		c.Fail(ctx, broken)
		return c.Result(), nil
	}
	s.cfg.Log.Info("delegated turn resumes", "turn", t.ID, "parent", t.Parent)
	return wait(ctx, c)
}

// Work runs a child that no parent waits for: one in the background. What a turn left behind that has ended meanwhile ends too.
func (s *Supervisor) Work(ctx context.Context, c Child, broken error) {
	t := c.Turn()
	defer s.Drop(t.ID)
	switch {
	case broken != nil:
		c.Fail(ctx, broken)
	case !t.Background:
		c.Fail(ctx, ErrOrphaned)
	default:
		c.Run(ctx)
	}
}

// expect announces a child that will be watched.
func (s *Supervisor) expect(t turnlog.Turn) *background {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[t.ID] == nil {
		s.by[t.ID] = &background{turn: t}
	}
	return s.by[t.ID]
}

// Watch lets Stop end a child in the background, which runs now.
func (s *Supervisor) Watch(t turnlog.Turn, cancel context.CancelCauseFunc) {
	b := s.expect(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.cancel = cancel; b.stopped != nil {
		cancel(b.stopped)
	}
}

// Drop forgets a child in the background that runs no more, or never will.
func (s *Supervisor) Drop(turn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, turn)
}

// Stop ends the children in the background that which is true of, and reports whether there was one.
func (s *Supervisor) Stop(cause error, which func(turnlog.Turn) bool) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.by {
		if !which(b.turn) {
			continue
		}
		if found = true; b.cancel != nil {
			b.cancel(cause)
		}
		b.stopped = cause
	}
	return found
}

// Any reports whether there is a child in the background that which is true of.
func (s *Supervisor) Any(which func(turnlog.Turn) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.by {
		if which(b.turn) {
			return true
		}
	}
	return false
}

// retry is the time between two tries to hand something over.
const retry = time.Second

// HandOver puts what a child says into the inbox, and reports whether the inbox took it before ctx ended. The child's last step is committed
// before and its end after it: a process that dies in between is followed by one that says the same again, and is not heard twice.
func (s *Supervisor) HandOver(ctx context.Context, turn string, m message.Message) bool {
	for {
		err := s.cfg.Inbox.Accept(context.WithoutCancel(ctx), m)
		if err == nil {
			return true
		}
		s.cfg.Log.Error("hand over the answer of a delegated turn; trying again", "turn", turn, "error", err)
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return false
		}
	}
}

// Share is what a child in the background gets of what its parent may still use, and what the parent has no more then: as much as everybody
// gets if the parent delegates as often as it may, and goes on itself.
func Share(limits transcript.Limits, spent transcript.Spent, delegations int) transcript.Spent {
	parts := delegations + 1
	return transcript.Spent{Tokens: max(limits.Tokens-spent.Tokens, 0) / parts, ToolCalls: max(limits.ToolCalls-spent.ToolCalls, 0) / parts}
}

// InPlace reports whether a child was begun in a place.
func InPlace(place string) func(turnlog.Turn) bool {
	return func(t turnlog.Turn) bool { return message.ParseSession(t.Session).Place == place }
}

// InConversation reports whether a child's conversation is the one of a key.
func InConversation(key message.ConversationKey) func(turnlog.Turn) bool {
	return func(t turnlog.Turn) bool { return t.ConversationKey() == key }
}
