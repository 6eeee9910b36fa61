package workspace

import (
	"sync"

	"github.com/flynnhost/flynn/host/message"
)

// Holds counts the users of each session's workspace: those that have its folder open or mounted, and would not notice that another one has
// replaced it. Its methods are safe for concurrent use.
type Holds struct {
	mu        sync.Mutex
	bySession map[message.WorkspaceKey]*hold
}

type hold struct {
	users int
	// moving is closed when the only user has finished an exclusive operation; nil while there is none.
	moving chan struct{}
}

// NewHolds returns an empty Holds.
func NewHolds() *Holds { return &Holds{bySession: make(map[message.WorkspaceKey]*hold)} }

// Enter counts a user before it opens the folder. leave, which may be called more than once, removes it again. Enter may wait some
// milliseconds while the folder is being replaced.
func (h *Holds) Enter(session message.WorkspaceKey) (leave func()) {
	for {
		h.mu.Lock()
		held := h.bySession[session]
		if held == nil {
			held = new(hold)
			h.bySession[session] = held
		}
		moving := held.moving
		if moving == nil {
			held.users++
		}
		h.mu.Unlock()
		if moving == nil {
			return sync.OnceFunc(func() { h.leave(session) })
		}
		<-moving
	}
}

func (h *Holds) leave(session message.WorkspaceKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.bySession[session]
	if held.users--; held.users == 0 {
		delete(h.bySession, session)
	}
}

// alone lets the only user of a workspace replace its folder: nobody else can enter until done is called. ok is false if there are other
// users.
func (h *Holds) alone(session message.WorkspaceKey) (done func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.bySession[session]
	if held == nil || held.users != 1 || held.moving != nil {
		return nil, false
	}
	moving := make(chan struct{})
	held.moving = moving
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		held.moving = nil
		close(moving)
	}, true
}
