package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/flynnhost/flynn/host/machine"
)

// nap is the pausing of a container that nobody uses. It costs nothing while the container is awake.
type nap struct {
	drowsy atomic.Bool   // it is paused, or about to be
	turn   chan struct{} // holds a token while somebody pauses or wakes it
	asleep bool          // the engine was asked to pause it; the turn's
}

func newNap() nap { return nap{turn: make(chan struct{}, 1)} }

// drowse marks a box that is idle as about to be paused, and returns it. A call that comes later sees the mark, because both
// hold s.mu when they look.
func (s *Session) drowse() *box {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active > 0 || s.launch == nil || s.launch.spent() {
		return nil
	}
	select {
	case <-s.launch.done:
	default:
		return nil
	}
	b := s.launch.box
	if b.nap.drowsy.Load() || !b.quiet() {
		return nil
	}
	b.nap.drowsy.Store(true)
	return b
}

// quiet says whether nothing goes on inside that a pause would hold up.
func (b *box) quiet() bool { return !b.running() && b.link.Connections() == 0 }

// sleep pauses a box that drowse has marked, unless a call has come since. What it has recorded about it goes: a container
// without running commands does not outlast the host.
func (b *box) sleep(ctx context.Context, p Pauser) error {
	b.nap.turn <- struct{}{}
	defer func() { <-b.nap.turn }()
	if !b.nap.drowsy.Load() {
		return nil
	}
	b.tenure.erase()
	b.nap.asleep = true // even if the engine does not say so in time
	return p.Pause(ctx, b.id)
}

// wake makes the box fit for use. If that cannot be done the box ends.
func (b *box) wake(ctx context.Context) error {
	if !b.nap.drowsy.Load() {
		return nil
	}
	select {
	case b.nap.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.nap.turn }()
	if b.nap.asleep {
		p, ok := b.driver.(Pauser)
		if !ok {
			return errors.New("sandbox: a driver has lost an ability")
		}
		if err := p.Unpause(context.WithoutCancel(ctx), b.id); err != nil {
			b.link.Fail(fmt.Errorf("it does not wake up: %w", err))
			return fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
		}
		b.nap.asleep = false
	}
	b.nap.drowsy.Store(false)
	return nil
}
