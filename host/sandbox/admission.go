package sandbox

import (
	"github.com/flynnhost/flynn/host/quota"
)

// Quota decides what a session may have beside all others; *quota.Keeper is one.
type Quota interface {
	// Sandbox decides whether a session may have another container beside those that live, and which one of them has to go first.
	Sandbox(session string, live []quota.Live) (evict int, err error)
	// Process has enter begin a background process, unless there are too many.
	Process(session string, enter func() error) error
	// Reserve lets a workspace hold up to most bytes, and returns how many it may, until release is called.
	Reserve(session string, most int64) (bytes int64, release func(), err error)
}

// noQuota has no bounds.
type noQuota struct{}

func (noQuota) Sandbox(string, []quota.Live) (int, error)        { return -1, nil }
func (noQuota) Process(_ string, enter func() error) error       { return enter() }
func (noQuota) Reserve(_ string, n int64) (int64, func(), error) { return n, func() {}, nil }

// admission is what a session's next container was allowed.
type admission struct {
	disk    int64  // what the workspace may hold, in bytes; 0 is no limit
	release func() // once the container is gone
}

// admit asks for another container, and ends idle ones for it.
func (m *Manager) admit(s *Session, p *pending) (admission, error) {
	for {
		oldest, err := m.admitOnce(s, p)
		if err != nil {
			return admission{}, err
		}
		if oldest == nil {
			break
		}
		m.log.Info("an idle sandbox makes room for another one", "session", oldest.session, "for", s.session)
		m.evictIdle(oldest)
	}
	disk, release, err := m.config.Quota.Reserve(s.folder(), s.spec.DiskBytes)
	return admission{disk, release}, err
}

// admitOnce counts the container in, unless an idle one has to be ended first.
func (m *Manager) admitOnce(s *Session, p *pending) (evict *Session, err error) {
	m.admitting.Lock()
	defer m.admitting.Unlock()
	var live []quota.Live
	var of []*Session
	for _, other := range m.all() {
		if other == s || !other.lives() {
			continue
		}
		since, idle := other.idleSince()
		live, of = append(live, quota.Live{Session: other.session, Idle: idle, Since: since}), append(of, other)
	}
	i, err := m.config.Quota.Sandbox(s.session, live)
	switch {
	case err != nil:
		return nil, err
	case i >= 0:
		return of[i], nil
	}
	p.admitted.Store(true)
	return nil, nil
}

// lives reports whether the session has a container, or is about to.
func (s *Session) lives() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.launch == nil || s.launch.spent() {
		return false
	}
	select {
	case <-s.launch.done:
		return true
	default:
		return s.launch.admitted.Load()
	}
}

// Living counts the containers of each session.
func (m *Manager) Living() map[string]int {
	counts := map[string]int{}
	for _, s := range m.all() {
		if s.lives() {
			counts[s.session]++
		}
	}
	return counts
}

// Running counts the background processes of each session.
func (m *Manager) Running() map[string]int {
	counts := map[string]int{}
	for _, s := range m.all() {
		s.mu.Lock()
		p := s.launch
		s.mu.Unlock()
		if !s.lives() {
			continue
		}
		select {
		case <-p.done:
		default:
			continue
		}
		for _, process := range p.box.list() {
			if process.Running && process.ID != ImageProcess {
				counts[s.session]++
			}
		}
	}
	return counts
}
