package sandbox

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// A container on an engine that several hosts share can be reached by all of them. Its record is in the Registry from the first call that a
// conversation makes, and the host that has the conversation takes the container over: with the first call that needs it, or when nobody else
// can have the conversation. The supervisor then refuses the host before, which forgets the container.

// register records the session's container for other hosts. If that fails the container ends with this host.
func (s *Session) register(ctx context.Context, c *container.Container) {
	registry := s.m.here.Registry
	if registry == nil || !c.Registrable() {
		return
	}
	conversation, is := registry.Conversation(ctx)
	if !is {
		return
	}
	engine, err := s.m.here.Driver.Capabilities(ctx)
	if err == nil && engine.Shared != "" {
		err = c.Register(ctx, container.Record{
			Host: s.m.here.Host.ID(), Session: s.session, Sandbox: s.name, Hash: s.hash, Spec: s.spec,
			Instance: s.m.here.Instance, Engine: engine.Shared, Conversation: conversation,
		})
	}
	if err != nil {
		s.m.config.Log.Warn("no other host can take a sandbox over", "session", s.session, "error", err)
	}
}

// LookSoon has Run take over what other hosts have left.
func (m *Manager) LookSoon() { m.reconciler.LookSoon() }

// takenOver returns the container that another host has left for a session, or nil.
func (m *Manager) takenOver(ctx context.Context, s *Session) *container.Container {
	if m.here.Registry == nil {
		return nil
	}
	all, err := m.here.Registry.List(ctx, s.session)
	for _, left := range all {
		if left.Foreign || left.Sandbox != s.name || m.here.Keys.Holds(left.Key) {
			continue
		}
		c, failed := m.takeOver(ctx, left.Record)
		if c != nil {
			return c
		}
		err = errors.Join(err, failed)
	}
	if err != nil {
		m.config.Log.Warn("cannot take a sandbox over; starting another one", "session", s.session, "sandbox", s.name, "error", err)
	}
	return nil
}

// takeOver returns the container of a record; nil without an error if another host works with it.
func (m *Manager) takeOver(ctx context.Context, r container.Record) (*container.Container, error) {
	work, done, is, err := m.here.Registry.Enter(ctx, r.Conversation)
	if err != nil || !is {
		return nil, err
	}
	defer done()
	c, err := m.reconciler.TakeOver(work, r)
	if errors.Is(err, frame.ErrTaken) {
		return nil, nil
	}
	if err == nil {
		m.count(r, c)
	}
	return c, err
}

// TakeOver implements reconcile.Sessions.
func (a adoption) TakeOver(ctx context.Context, r container.Record) error {
	s := newSession(a.Manager, r.Session, r.Sandbox, r.Spec, r.Hash)
	p := newPending()
	s.launch = p
	if !a.sessions.enterNew(s) {
		return nil // the session's next call takes it over
	}
	done, err := a.sessions.join()
	if err != nil {
		return nil // the host is stopping
	}
	defer done()
	c, err := a.takeOver(ctx, r)
	if c == nil {
		if err == nil {
			err = errElsewhere
		}
		if s.abandon(p, err) {
			return ignoreElsewhere(err)
		}
		c, err = a.provide(p, s) // calls wait for it
	}
	s.complete(p, c, err)
	return ignoreElsewhere(err)
}

// errElsewhere is the error of a launch that found another host at work.
var errElsewhere = errors.New("another host works with it")

func ignoreElsewhere(err error) error {
	if errors.Is(err, errElsewhere) {
		return nil
	}
	return err
}

// abandon completes a launch without a container, unless calls wait for it.
func (s *Session) abandon(p *pending, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.calls > 0 {
		return false
	}
	p.err, p.made = err, true
	close(p.done)
	return true
}

// TookOver reports whether a container of a session was taken over from another host.
func (m *Manager) TookOver(session message.WorkspaceKey) bool {
	for _, s := range m.sessions.all() {
		if c := s.current(); s.session == session && c != nil && !c.Dead() && c.TakenOver() {
			return true
		}
	}
	return false
}
