package sandbox

import (
	"sync"
	"sync/atomic"
)

// pause stops what runs in a container that nobody uses, until its next use. It costs nothing while the container runs. The
// container itself is not paused: its supervisor has to see the end of this host, and of the lease.
type pause struct {
	marked atomic.Bool // it is paused, or is about to be
	mu     sync.Mutex  // held while it is begun or ended
	begun  bool        // the supervisor was told to pause
}

// markForPause marks a box that is idle as about to be paused, and returns it. A call that comes later sees the mark, because both
// hold s.mu when they look.
func (s *Session) markForPause() *box {
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
	if b.pause.marked.Load() || !b.quiet() {
		return nil
	}
	b.pause.marked.Store(true)
	return b
}

// quiet reports whether nothing goes on inside that a pause would hold up.
func (b *box) quiet() bool { return !b.running() && b.link.Connections() == 0 }

// beginPause stops what runs in a box that markForPause has marked, unless a call has come since. The record of the box is erased: a
// container without running commands does not outlast the host.
func (b *box) beginPause() {
	b.pause.mu.Lock()
	defer b.pause.mu.Unlock()
	if !b.pause.marked.Load() {
		return
	}
	b.ownership.erase()
	b.pause.begun = true
	b.link.Pause(true)
}

// endPause makes the box fit for use. A link that fails meanwhile fails the call that follows.
func (b *box) endPause() {
	if !b.pause.marked.Load() {
		return
	}
	b.pause.mu.Lock()
	defer b.pause.mu.Unlock()
	if b.pause.begun {
		b.link.Pause(false)
		b.pause.begun = false
	}
	b.pause.marked.Store(false)
}
