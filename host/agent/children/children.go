// Package children supervises delegated turns: it starts them, waits for them, stops them, resumes them after a restart, and delivers
// the answers of those in the background.
//
// Start with Supervisor. It knows nothing of models, tools and rows; package agent implements Child, which makes and runs a child.
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
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// Child is one delegated turn.
type Child interface {
	// Turn returns the turn's present row.
	Turn() turnlog.Turn
	// Begin makes the child durable, so that it is made only once.
	Begin(ctx context.Context) error
	// Run runs the child until it ends or ctx does.
	Run(ctx context.Context)
	// Fail ends the child without running it.
	Fail(ctx context.Context, cause error)
	// Ended reports whether the child's end is committed.
	Ended() bool
	// Result returns the result of the call that began the child: for a background child a promise, otherwise its outcome.
	Result() tool.Result
}

// Queue queues background children beside their conversations.
type Queue interface {
	// PushChild must not block.
	PushChild(t turnlog.Turn)
}

// Inbox takes the answers of background children, each event once; *channel.Inbox implements it.
type Inbox interface {
	Accept(ctx context.Context, m message.Message) error
}

// Config configures a Supervisor. All fields are required.
type Config struct {
	Queue Queue
	Inbox Inbox
	Log   *slog.Logger
}

// Supervisor supervises the children of all turns.
type Supervisor struct {
	cfg Config

	mu sync.Mutex
	by map[string]*background // by turn id
}

// background is a child in the background. A child that still waits for a slot cannot be canceled yet, so its stop is remembered.
type background struct {
	turn    turnlog.Turn
	cancel  context.CancelCauseFunc // nil before the child runs
	stopped error                   // why the child must not run
}

// New returns a supervisor.
func New(cfg Config) *Supervisor { return &Supervisor{cfg: cfg, by: map[string]*background{}} }

// Causes of a child's end.
var (
	ErrOrphaned = errors.New("the turn that asked for this has ended")
	ErrNotEnded = errors.New("the delegated turn did not finish")
)

// Start begins a child. It waits for the end of a child that is not in the background and returns its result. ctx is the context of the
// parent's call; the child ends with it.
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
	if !c.Ended() { // the host goes down, or another process has settled the child
		return tool.Result{}, errors.Join(ctx.Err(), ErrNotEnded)
	}
	return c.Result(), nil
}

// TakeUp is like Start for a child that an earlier process began. broken says why the child cannot continue, or is nil.
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

// Work runs a background child. A child whose parent has ended without it ends too.
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

// expect registers a background child before it runs.
func (s *Supervisor) expect(t turnlog.Turn) *background {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[t.ID] == nil {
		s.by[t.ID] = &background{turn: t}
	}
	return s.by[t.ID]
}

// Watch registers the cancel function of a running background child, so that Stop can end it.
func (s *Supervisor) Watch(t turnlog.Turn, cancel context.CancelCauseFunc) {
	b := s.expect(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.cancel = cancel; b.stopped != nil {
		cancel(b.stopped)
	}
}

// Drop removes a background child that has ended or will never run.
func (s *Supervisor) Drop(turn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, turn)
}

// Stop ends the background children for which which returns true, and reports whether there was one.
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

// Any reports whether which returns true for a background child.
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

// retry is the time between two attempts to hand over an answer.
const retry = time.Second

// HandOver puts a child's answer into the inbox and reports whether the inbox took it before ctx ended. The child's last step is
// committed before the message and its end after it: if the process dies in between, the next one delivers the same event again, and
// the inbox drops the repetition.
func (s *Supervisor) HandOver(ctx context.Context, turn string, m message.Message) bool {
	for {
		err := s.cfg.Inbox.Accept(context.WithoutCancel(ctx), m)
		if err == nil {
			return true
		}
		if store.Settled(err) {
			return false
		}
		s.cfg.Log.Error("cannot hand over the answer of a delegated turn; trying again", "turn", turn, "error", err)
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return false
		}
	}
}

// Share divides what the parent may still use and returns the part of one background child: the parent keeps enough to delegate as
// often as it may and to continue itself.
func Share(limits transcript.Limits, spent transcript.Spent, delegations int) transcript.Spent {
	parts := delegations + 1
	return transcript.Spent{Tokens: max(limits.Tokens-spent.Tokens, 0) / parts, ToolCalls: max(limits.ToolCalls-spent.ToolCalls, 0) / parts}
}

// InScope matches the children that were begun in a scope.
func InScope(scope string) func(turnlog.Turn) bool {
	return func(t turnlog.Turn) bool { return t.Session.Parse().Scope == scope }
}

// InConversation matches the children of a conversation.
func InConversation(key message.ConversationKey) func(turnlog.Turn) bool {
	return func(t turnlog.Turn) bool { return t.ConversationKey() == key }
}
