package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// When there are more than maxHosts sessions, machines are closed on which nothing runs and that were not used for hostIdle.
const (
	maxHosts = 256
	hostIdle = 10 * time.Minute
)

// hosts are the host's own machine as seen by the sessions.
type hosts struct {
	folders Folders
	holds   *workspace.Holds
	quota   *quota.Keeper
	log     *slog.Logger
	now     func() time.Time

	mu      sync.Mutex
	timeout time.Duration // of commands
	open    map[message.WorkspaceKey]*hostMachine
}

// hostMachine is the host's own machine as seen by one session.
type hostMachine struct {
	*machine.Host
	used  time.Time // last handed out
	leave func()    // releases the holds
}

func (hs *hosts) configure(timeout time.Duration) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.timeout = timeout
}

func (hs *hosts) get(session message.WorkspaceKey) (*machine.Host, error) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h, ok := hs.open[session]
	if !ok {
		hs.closeIdle()
		var err error
		if h, err = hs.make(session); err != nil {
			return nil, err
		}
		hs.open[session] = h
	}
	h.used = hs.now()
	return h.Host, nil
}

func (hs *hosts) visit(session message.WorkspaceKey) (_ machine.Machine, leave func(), err error) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h, ok := hs.open[session]; ok {
		h.used = hs.now()
		return h.Host, func() {}, nil
	}
	h, err := hs.make(session)
	if err != nil {
		return nil, nil, err
	}
	return h.Host, func() { hs.end(session, h) }, nil
}

// make opens the session's workspace, which must not be moved from then on.
func (hs *hosts) make(session message.WorkspaceKey) (*hostMachine, error) {
	leave := hs.holds.Enter(session)
	dir := workspace.Path(hs.folders.Workspaces, session)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		leave()
		return nil, fmt.Errorf("make workspace: %w", err)
	}
	opened, err := machine.NewHost(machine.HostConfig{
		Workspace: dir, Homes: workspace.Path(hs.folders.homes, session), DefaultTimeout: hs.timeout, Log: hs.log,
		Quota: hs.quota.Session(session),
	})
	if err != nil {
		leave()
		return nil, err
	}
	return &hostMachine{Host: opened, leave: leave}, nil
}

// close ends the processes on the machine.
func (h *hostMachine) close() error {
	defer h.leave()
	return h.Close()
}

func (hs *hosts) end(session message.WorkspaceKey, h *hostMachine) {
	if err := h.close(); err != nil {
		hs.log.Error("close the machine of a session", "session", session, "error", err)
	}
}

// closeIdle closes idle machines; hs.mu is held.
func (hs *hosts) closeIdle() {
	if len(hs.open) < maxHosts {
		return
	}
	for session, h := range hs.open {
		if hs.now().Sub(h.used) < hostIdle || !h.Idle() {
			continue
		}
		hs.end(session, h)
		delete(hs.open, session)
	}
}

// forget closes the machine of a session and removes what its commands have stored outside of the workspace.
func (hs *hosts) forget(session message.WorkspaceKey) error {
	hs.mu.Lock()
	h := hs.open[session]
	delete(hs.open, session)
	hs.mu.Unlock()
	var err error
	if h != nil {
		err = h.close()
	}
	return errors.Join(err, hs.folders.RemoveHome(session))
}

// running counts the background processes of each session.
func (hs *hosts) running() map[message.WorkspaceKey]int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	counts := make(map[message.WorkspaceKey]int, len(hs.open))
	for session, h := range hs.open {
		if n := h.Running(); n > 0 {
			counts[session] = n
		}
	}
	return counts
}

// processes returns the background processes of a session.
func (hs *hosts) processes(ctx context.Context, session message.WorkspaceKey) []machine.Process {
	hs.mu.Lock()
	h := hs.open[session]
	hs.mu.Unlock()
	if h == nil {
		return nil
	}
	all, _ := h.Processes(ctx) // a closed machine has none
	return all
}

// close ends all processes on the host.
func (hs *hosts) close() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	var errs []error
	for _, h := range hs.open {
		errs = append(errs, h.close())
	}
	clear(hs.open)
	if err := errors.Join(errs...); err != nil {
		hs.log.Error("end processes on the host", "error", err)
	}
}
