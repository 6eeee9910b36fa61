package sandbox

import (
	"log/slog"
	"sync"
	"time"

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

// admissions decides which session gets another container.
type admissions struct {
	quota    Quota
	sessions *registry
	idle     *idleWatch
	log      *slog.Logger

	admitting sync.Mutex // held while one container is counted in

	mu   sync.Mutex
	runs map[*codeSlot]bool
}

// claimant is what asks for a container.
type claimant struct {
	session string
	folder  string // what it writes to, by the name that the Quota knows
	disk    int64  // what it may hold there, in bytes; 0 is no limit
	own     *Session
	enter   func() // has it count as a container
}

// admit waits until a claimant may have another container, and ends idle ones for it.
func (a *admissions) admit(c claimant) (admission, error) {
	for {
		oldest, err := a.admitOnce(c)
		if err != nil {
			return admission{}, err
		}
		if oldest == nil {
			break
		}
		a.makeRoom(oldest, c)
	}
	for {
		disk, release, err := a.quota.Reserve(c.folder, c.disk)
		if err == nil && disk == c.disk {
			return admission{disk, release}, nil
		}
		if err == nil {
			release()
		}
		live, of := a.living(c.own)
		i := a.quota.FreesDisk(c.folder, c.disk, live)
		if i < 0 {
			disk, release, err = a.quota.Reserve(c.folder, c.disk)
			return admission{disk, release}, err
		}
		a.makeRoom(of[i], c)
	}
}

// makeRoom ends an idle container.
func (a *admissions) makeRoom(oldest *Session, c claimant) {
	a.log.Info("ended an idle sandbox to make room for another", "session", oldest.session, "for", c.session)
	a.idle.evict(oldest)
}

// admitOnce counts the container in, unless an idle one has to be ended first.
func (a *admissions) admitOnce(c claimant) (evict *Session, err error) {
	a.admitting.Lock()
	defer a.admitting.Unlock()
	live, of := a.living(c.own)
	i, err := a.quota.Sandbox(c.session, live)
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
func (a *admissions) living(but *Session) (live []quota.Live, of []*Session) {
	for _, s := range a.sessions.all() {
		if s == but || !s.lives() {
			continue
		}
		var since time.Time
		var idle bool
		if c := s.current(); c != nil {
			since, idle = c.Idle()
		}
		live, of = append(live, quota.Live{Session: s.session, Folder: s.folder(), Idle: idle, Since: since}), append(of, s)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for r := range a.runs {
		live, of = append(live, quota.Live{Session: r.session}), append(of, nil)
	}
	return live, of
}

// codeSlot is the container of a code run, until it is gone.
type codeSlot struct{ session string }

// admitCode counts a code run in, and returns what it may hold. It counts until leave is called.
func (a *admissions) admitCode(session string, disk int64) (_ admission, leave func(), err error) {
	r := &codeSlot{session}
	forget := func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.runs, r)
	}
	allowed, err := a.admit(claimant{session: session, folder: session + "\x00code", disk: disk, enter: func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.runs[r] = true
	}})
	if err != nil {
		forget()
		return admission{}, nil, err
	}
	return allowed, func() { forget(); allowed.release() }, nil
}
