package policy

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Rollback puts a stored module in force in place of the policy's file, until the file changes or Clear is called. choose returns the SHA-256 of
// the module's file; it is called while no other change is under way and all earlier changes are recorded.
func (e *Engine) Rollback(ctx context.Context, name string, choose func() (file string, err error), by string) (Status, error) {
	return e.change(ctx, name, func(s *slot) error {
		file, err := choose()
		if err != nil {
			return err
		}
		m, err := e.archived(ctx, s, file)
		if err != nil {
			return fmt.Errorf("roll policy %s back: %w", name, err)
		}
		s.past.Pin, s.past.Refused, s.err = Pin{File: file, Over: s.tried}, "", nil
		m.trial.Store(nil)
		s.install(m)
		s.changed(OutcomeRolledBack, by, m.file, m.digest, "")
		s.change.Over = s.tried
		return nil
	})
}

// Clear ends a roll-back, and tries a file again whose module had failed in force.
func (e *Engine) Clear(ctx context.Context, name, by string) (Status, error) {
	return e.change(ctx, name, func(s *slot) error {
		if s.past.Pin.File == "" && s.past.Refused == "" {
			return fmt.Errorf("policy %s is not rolled back: %w", name, ErrNothing)
		}
		s.past.Pin, s.past.Refused, s.tried = Pin{}, "", ""
		s.changed(OutcomeCleared, by, "", "", "")
		e.record(ctx, *s.change)
		s.change = nil
		e.refresh(ctx, s, by)
		return nil
	})
}

// Put has write replace a policy's file, and takes it up as somebody's change. The watch of files waits meanwhile.
func (e *Engine) Put(ctx context.Context, name string, write func() error, by string) (Status, error) {
	return e.change(ctx, name, func(s *slot) error {
		if err := write(); err != nil {
			return err
		}
		e.refresh(ctx, s, by)
		return nil
	})
}

// change puts a policy in force as edit changes it.
func (e *Engine) change(ctx context.Context, name string, edit func(*slot) error) (Status, error) {
	e.staging.Lock()
	defer e.staging.Unlock()
	if e.closed {
		return Status{}, errClosed
	}
	staged := e.successors()
	for _, s := range staged {
		if s.source.Name != name {
			continue
		}
		if err := edit(s); err != nil {
			dropAll(staged)
			return Status{}, err
		}
		e.replace(staged, true)
		e.tell(ctx, []*slot{s})
		return s.status(), nil
	}
	dropAll(staged)
	return Status{}, notInChain(name)
}

func notInChain(name string) error {
	return Unknownf("no policy %q is in the chain: flynn policy list shows those that are", name)
}

// ErrUnknown is the error for an unknown policy or module.
var ErrUnknown = errors.New("unknown")

// Unknownf returns an ErrUnknown with another text.
func Unknownf(format string, args ...any) error { return unknown(fmt.Sprintf(format, args...)) }

type unknown string

func (u unknown) Error() string { return string(u) }

func (unknown) Is(target error) bool { return target == ErrUnknown }

// ErrNothing is the error for a change without effect.
var ErrNothing = errors.New("nothing to do")

// successors returns slots that inherit from those in force.
func (e *Engine) successors() []*slot {
	staged := make([]*slot, len(e.slots))
	for i, old := range e.slots {
		staged[i] = &slot{source: old.source}
		staged[i].inherit(old)
	}
	return staged
}

// archived returns a module by the digest of its file: one that is compiled already, without a reference, or else one from the history, with a
// reference. It has passed the gate before.
func (e *Engine) archived(ctx context.Context, s *slot, file string) (*Module, error) {
	digest := identityOf(file, s.source)
	if m := s.compiled(digest); m != nil {
		return m, nil
	}
	if e.cfg.History == nil {
		return nil, errors.New("this host keeps no archive of modules")
	}
	wasm, err := e.cfg.History.Fetch(ctx, file)
	if err != nil {
		return nil, err
	}
	if fileDigest(wasm) != file {
		return nil, fmt.Errorf("the archive's module %s is not what was put there", file)
	}
	return e.load(ctx, s, wasm, func(m *Module) error {
		return e.cfg.History.Keep(ctx, Candidate{Module: m, Source: s.source, Wasm: wasm})
	})
}

// fallBack puts the module in force that was in force when the engine ended, if the file cannot be.
func (e *Engine) fallBack(ctx context.Context, s *slot) {
	if s.module != nil || s.past.File == "" || s.past.File == s.tried {
		return
	}
	begin := time.Now()
	m, err := e.archived(ctx, s, s.past.File)
	if err != nil {
		s.err = &Error{ClassLoad, fmt.Errorf("%w; and the module that was in force before cannot be loaded: %w", s.err, err)}
		return
	}
	s.install(m)
	s.loadedAt, s.loadTook = time.Now(), time.Since(begin)
}
