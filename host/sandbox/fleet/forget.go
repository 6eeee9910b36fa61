package fleet

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// ForgetTimeout bounds the removal of a session's containers and volumes.
const ForgetTimeout = time.Minute

// Forget removes what deleted sessions have on the host and on the engine, including snapshots and what programs of agents remember; homes are
// their homes. Workspaces stay, as does everything that another session of the same home still uses. If something cannot be removed now, it is
// removed when the engine is back, or at the next start.
func (f *Fleet) Forget(ctx context.Context, homes map[message.WorkspaceKey]bool) error {
	for home := range homes {
		f.quota.Forget(home)
	}
	left, err := f.config.Store.ListLeftovers(ctx, turnlog.LeftContainers)
	for _, l := range left {
		if homes[message.WorkspaceKey(l.Name)] {
			key := message.WorkspaceKey(l.Name)
			err = errors.Join(err, f.hosts.forget(key), f.snapshots.Remove(key), f.forgetOnEngine(ctx, l))
		}
	}
	return err
}

func (f *Fleet) forgetOnEngine(ctx context.Context, l turnlog.Leftover) error {
	f.mu.Lock()
	manager, unavailable := f.manager, f.unavailable
	f.mu.Unlock()
	switch {
	case errors.Is(unavailable, ErrOff):
		return nil // the engine is not in use
	case unavailable != nil || manager == nil:
		return unavailable
	}
	return f.drop(ctx, manager, l)
}

// drop removes what a deleted session has on the engine.
func (f *Fleet) drop(ctx context.Context, manager *sandbox.Manager, l turnlog.Leftover) error {
	ctx, cancel := context.WithTimeout(ctx, ForgetTimeout)
	defer cancel()
	if err := manager.Forget(ctx, message.WorkspaceKey(l.Name)); err != nil {
		return err
	}
	return f.config.Store.DropLeftover(ctx, l)
}

// forgetLeft removes what could not be removed when sessions were deleted. No sandbox is handed out before it returns, so nothing that it
// finds on the engine belongs to a newer session.
func (f *Fleet) forgetLeft(ctx context.Context, manager *sandbox.Manager) {
	left, err := f.config.Store.ListLeftovers(ctx, turnlog.LeftContainers)
	for _, l := range left {
		key := message.WorkspaceKey(l.Name)
		err = errors.Join(err, f.folders.RemoveHome(key), f.snapshots.Remove(key), f.drop(ctx, manager, l))
	}
	if err != nil {
		f.log.Warn("cannot remove deleted sessions from the engine", "error", machine.Reason(err))
	}
}

// sweepVolumes removes the volumes of programs whose session is gone, for example after a crash. Volumes of other hosts carry other labels
// and are not listed.
func (f *Fleet) sweepVolumes(ctx context.Context, manager *sandbox.Manager) {
	ctx, cancel := context.WithTimeout(ctx, ForgetTimeout)
	defer cancel()
	list, err := f.config.Store.Sessions(ctx, math.MaxInt32)
	if err != nil {
		f.log.Warn("kept the volumes of deleted sessions: cannot list sessions", "error", err)
		return
	}
	known := make(map[message.WorkspaceKey]bool, len(list))
	for _, s := range list {
		known[s.Key.Parse().Workspace()] = true
	}
	err = manager.RemoveVolumes(ctx, func(v driver.Owned) bool {
		session := message.WorkspaceKey(v.Labels[driver.LabelSession])
		if v.Labels[driver.LabelVolume] != specs.CLIVolume || session == "" || known[session] {
			return false
		}
		f.log.Info("removed the volume of a deleted session", "volume", v.Name, "session", session)
		return true
	})
	if err != nil {
		f.log.Warn("cannot remove the volumes of deleted sessions", "error", err)
	}
}

// RemoveWorkspace removes the files of a session's workspace, which Forget leaves, with their snapshots. Nothing may run in it.
func (f *Fleet) RemoveWorkspace(key message.WorkspaceKey) error {
	return errors.Join(removeall.Folder(workspace.Path(f.folders.Workspaces, key)), f.snapshots.Remove(key))
}
