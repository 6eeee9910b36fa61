package sandbox

import (
	"errors"
	"sync"
)

// errDetached is the reason of calls that fail because their container was left for a later host.
var errDetached = errors.New("the host is stopping")

// detachAll leaves the containers with background processes for their lease: a later host goes on with them. The
// sessions give no more calls.
func (m *Manager) detachAll() {
	var leaving []*box
	for _, s := range m.all() {
		if b := s.leave(); b != nil {
			leaving = append(leaving, b)
			m.forget(s)
		}
	}
	m.mu.Lock()
	m.detached += len(leaving)
	m.mu.Unlock()
	if len(leaving) == 0 {
		return
	}
	m.log.Info("sandboxes with background processes stay for their lease", "count", len(leaving), "lease", m.config.Lease)
	var all sync.WaitGroup
	for _, b := range leaving {
		all.Go(b.detach)
	}
	all.Wait()
}

// leave retires the session if its container is to outlast this host, and returns that.
func (s *Session) leave() *box {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.launch == nil || s.launch.spent() {
		return nil
	}
	select {
	case <-s.launch.done:
	default:
		return nil
	}
	b := s.launch.box
	if b.pause.marked.Load() || !b.ownership.isRecorded() || !b.running() {
		return nil
	}
	s.retired = true
	return b
}
