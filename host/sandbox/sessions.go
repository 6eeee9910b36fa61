package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/launch"
)

// key names a sandbox: a session may have several under different names.
type key struct {
	session message.WorkspaceKey
	name    string
}

// registry holds the sandboxes of all sessions, and counts background work that shutdown waits for.
type registry struct {
	work sync.WaitGroup // launches, removals and code runs

	mu     sync.Mutex // guards the fields below, never held over I/O
	byKey  map[key]*Session
	closed bool
}

func newRegistry() *registry { return &registry{byKey: make(map[key]*Session)} }

// enter returns the session that is registered under the key of fresh, or registers fresh in place of one with another specification, which
// ends before fresh begins.
func (r *registry) enter(fresh *Session) (*Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, launch.ErrClosed
	}
	old := r.byKey[fresh.key()]
	if old != nil && old.hash == fresh.hash {
		old.timeout.Store(fresh.timeout.Load())
		return old, nil
	}
	fresh.replaced = old
	r.byKey[fresh.key()] = fresh
	return fresh, nil
}

// find returns the session with that key, or nil.
func (r *registry) find(k key) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byKey[k]
}

// enterNew registers a session unless there is one with its key.
func (r *registry) enterNew(s *Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.byKey[s.key()] != nil {
		return false
	}
	r.byKey[s.key()] = s
	return true
}

// join counts work; settle waits for it until done is called.
func (r *registry) join() (done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, launch.ErrClosed
	}
	r.work.Add(1)
	return r.work.Done, nil
}

func (r *registry) forget(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey[s.key()] == s {
		delete(r.byKey, s.key())
	}
}

// all returns the existing sessions.
func (r *registry) all() []*Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.byKey))
}

// close refuses further sessions and work, and reports whether this is the first call.
func (r *registry) close() (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = !r.closed
	r.closed = true
	return first
}

// end removes and retires the chosen sessions, concurrently as far as the reaper allows.
func (r *registry) end(ctx context.Context, chosen func(*Session) bool) error {
	var ending []*Session
	for _, s := range r.all() {
		if chosen(s) {
			ending = append(ending, s)
			r.forget(s)
		}
	}
	failures := make(chan error, len(ending))
	for _, s := range ending {
		r.work.Go(func() { failures <- s.retire() })
	}
	var all error
	for range ending {
		select {
		case err := <-failures:
			all = errors.Join(all, err)
		case <-ctx.Done():
			return errors.Join(all, ctx.Err())
		}
	}
	return all
}

// settle waits for the background work to end.
func (r *registry) settle(ctx context.Context) error {
	done := make(chan struct{})
	go func() { r.work.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end sandboxes: %w", ctx.Err())
	}
}
