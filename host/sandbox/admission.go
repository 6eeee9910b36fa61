package sandbox

import (
	"log/slog"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/quota"
)

// Quota limits what one session may hold beside all others; *quota.Keeper implements it.
type Quota interface {
	// Sandbox decides whether a session may have another container besides those that live, and which one must be removed first (-1: none).
	Sandbox(session message.WorkspaceKey, live []quota.Live) (evict int, err error)
	// Process calls enter to begin a background process, unless the session has too many.
	Process(session message.WorkspaceKey, enter func() error) error
	// Reserve lets a workspace grow to at most most bytes and returns the size that it may reach until release is called.
	Reserve(session message.WorkspaceKey, most int64) (bytes int64, release func(), err error)
	// FreesDisk returns the index of the live container whose removal would let Reserve return more, or -1.
	FreesDisk(session message.WorkspaceKey, most int64, live []quota.Live) int
}

// noQuota sets no limits.
type noQuota struct{}

func (noQuota) Sandbox(message.WorkspaceKey, []quota.Live) (int, error)  { return -1, nil }
func (noQuota) Process(_ message.WorkspaceKey, enter func() error) error { return enter() }
func (noQuota) Reserve(_ message.WorkspaceKey, n int64) (int64, func(), error) {
	return n, func() {}, nil
}

func (noQuota) FreesDisk(message.WorkspaceKey, int64, []quota.Live) int { return -1 }

// admission is what a session's next container may use.
type admission struct {
	disk    int64  // size limit of the workspace in bytes; 0 means none
	release func() // called once the container is gone
}

// admissions decides which session may have another container.
type admissions struct {
	quota    Quota
	sessions *registry
	idle     *idleWatch
	log      *slog.Logger

	admitting sync.Mutex // held while one container is counted in

	mu   sync.Mutex
	runs map[*codeSlot]bool
}

// claimant describes a request for a container.
type claimant struct {
	session message.WorkspaceKey
	folder  message.WorkspaceKey // the folder it writes to, as the Quota names it
	disk    int64                // size limit of that folder in bytes; 0 means none
	own     *Session
	enter   func() // counts it as a container
}

// admit waits until a claimant may have another container, ending idle ones to make room.
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

// living returns the live containers except one; code runs have no Session.
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

// codeSlot counts as the container of a code run until that is gone.
type codeSlot struct{ session message.WorkspaceKey }

// admitCode admits a code run and returns what it may hold. The run counts until leave is called.
func (a *admissions) admitCode(session message.WorkspaceKey, disk int64) (_ admission, leave func(), err error) {
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
