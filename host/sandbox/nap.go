package sandbox

import (
	"sync"
	"sync/atomic"
)

// nap is the standing still of what runs in a container that nobody uses. It costs nothing while the container is awake. The
// container itself is not paused: its supervisor has to see the end of this host, and of the lease.
type nap struct {
	drowsy atomic.Bool // it stands still, or is about to
	mu     sync.Mutex  // held while somebody stops or wakes it
	asleep bool        // its supervisor was told so
}

// drowse marks a box that is idle as about to stand still, and returns it. A call that comes later sees the mark, because both
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

// quiet reports whether nothing goes on inside that a pause would hold up.
func (b *box) quiet() bool { return !b.running() && b.link.Connections() == 0 }

// sleep stops what runs in a box that drowse has marked, unless a call has come since. What is recorded about it goes: a
// container without running commands does not outlast the host.
func (b *box) sleep() {
	b.nap.mu.Lock()
	defer b.nap.mu.Unlock()
	if !b.nap.drowsy.Load() {
		return
	}
	b.tenure.erase()
	b.nap.asleep = true
	b.link.Nap(true)
}

// wake makes the box fit for use. A link that fails meanwhile fails the call that follows.
func (b *box) wake() {
	if !b.nap.drowsy.Load() {
		return
	}
	b.nap.mu.Lock()
	defer b.nap.mu.Unlock()
	if b.nap.asleep {
		b.link.Nap(false)
		b.nap.asleep = false
	}
	b.nap.drowsy.Store(false)
}
