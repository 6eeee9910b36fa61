package sandbox

import (
	"github.com/flynnhost/flynn/host/sandbox/quota"
)

// Quota decides what a session may have beside all others; *quota.Keeper is one.
type Quota interface {
	// Sandbox decides whether a session may have another container beside those that live, and which one of them has to go first.
	Sandbox(session string, live []quota.Live) (evict int, err error)
	// Process has enter begin a background process, unless there are too many.
	Process(session string, enter func() error) error
	// Reserve lets a workspace hold up to most bytes, and returns how many it may, until release is called.
	Reserve(session string, most int64) (bytes int64, release func(), err error)
	// FreesDisk returns which of the containers that live has to go for Reserve to return more, or -1.
	FreesDisk(session string, most int64, live []quota.Live) int
}

// noQuota has no bounds.
type noQuota struct{}

func (noQuota) Sandbox(string, []quota.Live) (int, error)        { return -1, nil }
func (noQuota) Process(_ string, enter func() error) error       { return enter() }
func (noQuota) Reserve(_ string, n int64) (int64, func(), error) { return n, func() {}, nil }

func (noQuota) FreesDisk(string, int64, []quota.Live) int { return -1 }

// admission is what a session's next container was allowed.
type admission struct {
	disk    int64  // what the workspace may hold, in bytes; 0 is no limit
	release func() // once the container is gone
}

// claimant is what asks for a container.
type claimant struct {
	session string
	folder  string // what it writes to, by the name that the Quota knows
	disk    int64  // what it may hold there, in bytes; 0 is no limit
	own     *Session
	enter   func() // has it count as a container
}

// admit asks for another container, and ends idle ones for it.
func (m *Manager) admit(c claimant) (admission, error) {
	for {
		oldest, err := m.admitOnce(c)
		if err != nil {
			return admission{}, err
		}
		if oldest == nil {
			break
		}
		m.makeRoom(oldest, c)
	}
	for {
		disk, release, err := m.config.Quota.Reserve(c.folder, c.disk)
		if err == nil && disk == c.disk {
			return admission{disk, release}, nil
		}
		if err == nil {
			release()
		}
		live, of := m.living(c.own)
		i := m.config.Quota.FreesDisk(c.folder, c.disk, live)
		if i < 0 {
			disk, release, err = m.config.Quota.Reserve(c.folder, c.disk)
			return admission{disk, release}, err
		}
		m.makeRoom(of[i], c)
	}
}

// makeRoom ends an idle container.
func (m *Manager) makeRoom(oldest *Session, c claimant) {
	m.log.Info("ended an idle sandbox to make room for another", "session", oldest.session, "for", c.session)
	m.evictIdle(oldest)
}

// admitOnce counts the container in, unless an idle one has to be ended first.
func (m *Manager) admitOnce(c claimant) (evict *Session, err error) {
	m.admitting.Lock()
	defer m.admitting.Unlock()
	live, of := m.living(c.own)
	i, err := m.config.Quota.Sandbox(c.session, live)
	switch {
	case err != nil:
		return nil, err
	case i >= 0:
		return of[i], nil
	}
	c.enter()
	return nil, nil
}

// living are the containers that live, but for one; those of code runs have no Session.
func (m *Manager) living(but *Session) (live []quota.Live, of []*Session) {
	for _, s := range m.all() {
		if s == but || !s.lives() {
			continue
		}
		since, idle := s.idleSince()
		live, of = append(live, quota.Live{Session: s.session, Folder: s.folder(), Idle: idle, Since: since}), append(of, s)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := range m.codeRuns {
		live, of = append(live, quota.Live{Session: r.session}), append(of, nil)
	}
	return live, of
}

// codeRun is the container of one, until it is gone.
type codeRun struct{ session string }

// admitCode counts a code run in, and returns what it may hold. It counts until leave is called.
func (m *Manager) admitCode(session string, disk int64) (_ admission, leave func(), err error) {
	r := &codeRun{session}
	forget := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.codeRuns, r)
	}
	allowed, err := m.admit(claimant{session: session, folder: session + "\x00code", disk: disk, enter: func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.codeRuns[r] = true
	}})
	if err != nil {
		forget()
		return admission{}, nil, err
	}
	return allowed, func() { forget(); allowed.release() }, nil
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

// Living counts the containers of each session, those of bridges and code runs among them.
func (m *Manager) Living() map[string]int {
	counts := map[string]int{}
	live, _ := m.living(nil)
	for _, l := range live {
		counts[l.Session]++
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
