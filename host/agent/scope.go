package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// QueueKey returns the queue of an item: its conversation scope. A turn stays in the scope in which it began, even if the configuration
// has changed, so that two turns of one session never run at once.
func (r *Runner) QueueKey(it Item) string {
	if it.Turn != nil && it.Turn.Parent != "" {
		return childKey + it.Turn.ID
	}
	if it.Turn != nil {
		scope := it.Turn.Session.Parse().Scope
		return scope
	}
	return r.cfg.Generations.Scope(it.Row.Message)
}

// scopeOf reads the stored state of a scope, and begins the scope anew after a long silence.
func (r *Runner) scopeOf(ctx context.Context, gen *Generation, key string, it Item) (turnlog.Scope, error) {
	at, err := r.cfg.Store.Scope(ctx, key)
	if err != nil || gen.Idle == 0 || it.Turn != nil || it.Order {
		return at, err
	}
	last, err := r.lastSaid(ctx, gen, at)
	if err != nil || last.IsZero() || it.Row.Message.ReceivedAt.Sub(last) < gen.Idle {
		return at, err
	}
	at.Epoch, at.Began, at.Why = at.Epoch+1, r.cfg.Now().UTC(), turnlog.BeganIdle
	return at, r.cfg.Store.SetScope(ctx, at)
}

// lastSaid returns when the last turn of a scope began, over all agents; zero if the present epoch has none.
func (r *Runner) lastSaid(ctx context.Context, gen *Generation, at turnlog.Scope) (time.Time, error) {
	var last time.Time
	for _, name := range gen.Names {
		s, err := r.sessions.look(ctx, at.Session(name))
		if err != nil {
			return last, err
		}
		if s.at.After(last) {
			last = s.at
		}
	}
	return last, nil
}

// opening returns the note for the first turn of a session that began anew by itself.
func opening(at turnlog.Scope, s *session) []string {
	if at.Why != turnlog.BeganIdle || s.count > 0 {
		return nil
	}
	return []string{"[Nothing was said here for long, so a new session begins. What was said before is not shown.]"}
}

// fitted returns the agent with the tier that people chose, if the configuration permits it.
func (a *Agent) fitted(tier string) *Agent {
	window, ok := a.Tiers[tier]
	if !ok || tier == a.Tier {
		return a
	}
	fitted := *a
	fitted.Tier, fitted.Window = tier, window
	return &fitted
}

// Summary describes a conversation scope for people.
type Summary struct {
	Scope   turnlog.Scope
	Running bool
	Queued  int
	Mode    string // queue mode
	Agent   string // the agent that would answer; "" if none, or if only a policy knows
	Tier    string
	Turns   int
	Began   time.Time // zero before the first turn
}

// Summary describes a scope as it would be when the sender of m wrote there. Policies are not asked, because there is no message to
// decide about.
func (r *Runner) Summary(ctx context.Context, gen *Generation, key string, m message.Message) (Summary, error) {
	at, err := r.cfg.Store.Scope(ctx, key)
	if err != nil {
		return Summary{}, fmt.Errorf("read the state of the conversation: %w", err)
	}
	s := Summary{Scope: at, Running: r.Running(key), Queued: r.queued(key), Mode: gen.queue(nil, m.Channel)}
	d, _ := route.Decide(ctx, gen.Table.With(at.Agent), nil, policy.RouteFacts{
		Facts: route.Facts(m, gen.Roles, r.cfg.Now()), Agents: gen.Roles.Agents(m, gen.Names),
	})
	a, ok := gen.Agents[d.Agent]
	if !ok {
		return s, nil
	}
	s.Agent, s.Tier, s.Mode = a.Name, a.fitted(at.Tier).Tier, gen.queue(a, m.Channel)
	now, err := r.sessions.look(ctx, at.Session(a.Name))
	if err != nil {
		return s, err
	}
	s.Turns, s.Began = now.count, now.used.Began
	return s, nil
}

// Forget drops a deleted session from the cache.
func (r *Runner) Forget(key message.SessionKey) { r.sessions.forget(key) }

// Renewed calls write, which replaces a session, for example by an import, and drops the session from the cache. It refuses while a
// turn runs in the session's scope, because the turn would continue from the old state.
func (r *Runner) Renewed(key message.SessionKey, write func() error) error {
	scope := key.Parse().Scope
	if r.Running(scope) {
		return fmt.Errorf("a turn runs in %s: %w", scope, store.ErrConflict)
	}
	defer r.sessions.forget(key)
	return write()
}
