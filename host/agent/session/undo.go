package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Files are the files of workspaces and their snapshots; *fleet.Fleet implements it.
type Files interface {
	// Changed returns when a turn last was about to change the files of a session, or the zero time.
	Changed(session message.WorkspaceKey) time.Time
	// Busy says what uses the workspace, or "".
	Busy(ctx context.Context, session message.WorkspaceKey) string
	// PlanUndo returns what an undo would change, and Undo does it. Nothing may run in the workspace.
	PlanUndo(ctx context.Context, session message.WorkspaceKey, back int) (snapshot.Plan, error)
	Undo(ctx context.Context, session message.WorkspaceKey, r snapshot.Request) (snapshot.Undone, error)
	// Unrecorded returns the undos that were completed at the start. RecordedUndo ends one that is in the audit log.
	Unrecorded() []snapshot.Undone
	RecordedUndo(u snapshot.Undone) error
	// CopyWorkspace makes the workspace of a new session of that of another one, without what the left turns changed: all of it, or nothing.
	CopyWorkspace(ctx context.Context, from, to message.WorkspaceKey, left []string) (snapshot.Copied, error)
	RemoveWorkspace(session message.WorkspaceKey) error
	// NoteFiles adds a note for the next turn.
	NoteFiles(session message.WorkspaceKey, text string) error
}

// PlanUndo returns what an undo in a scope would change, of the agent whose turn changed files last. It fails with store.ErrConflict while
// something runs there.
func (k *Keeper) PlanUndo(ctx context.Context, scope string, back int) (p snapshot.Plan, err error) {
	err = k.onFiles(ctx, scope, func(ctx context.Context, w message.WorkspaceKey) error {
		p, err = k.Files.PlanUndo(ctx, w, back)
		return err
	})
	return p, err
}

// Undo brings the files back that a turn in a scope has changed, and records that. Its errors are those of PlanUndo; one whose plan differs
// from the one that was confirmed is store.ErrConflict as well.
func (k *Keeper) Undo(ctx context.Context, scope string, r snapshot.Request) (u snapshot.Undone, err error) {
	err = k.onFiles(ctx, scope, func(ctx context.Context, w message.WorkspaceKey) error {
		if u, err = k.Files.Undo(context.WithoutCancel(ctx), w, r); err != nil {
			if errors.Is(err, snapshot.ErrChanged) {
				err = store.Conflict(err.Error())
			}
			return err
		}
		if u.Again {
			return nil
		}
		return k.recordUndo(context.WithoutCancel(ctx), u)
	})
	return u, err
}

// onFiles calls do with the workspace of a scope whose files a turn changed last, while nothing runs in the scope.
func (k *Keeper) onFiles(ctx context.Context, scope string, do func(context.Context, message.WorkspaceKey) error) error {
	if err := k.unused(ctx, scope); err != nil {
		return err
	}
	return k.alone(ctx, scope, false, func() error {
		if err := k.unused(ctx, scope); err != nil { // something may have begun meanwhile
			return err
		}
		list, err := k.Store.SessionsIn(ctx, scope)
		if err != nil {
			return err
		}
		var last time.Time
		var chosen message.WorkspaceKey
		for _, w := range workspaces(list) {
			if at := k.Files.Changed(w); chosen == "" || at.After(last) {
				last, chosen = at, w
			}
		}
		if chosen == "" {
			return store.NotFound("no agent has answered here yet")
		}
		return do(ctx, chosen)
	})
}

// unused returns an error while a turn or a background command runs in a scope.
func (k *Keeper) unused(ctx context.Context, scope string) error {
	switch {
	case k.Turns.Running(scope):
		return store.Conflict("an answer is being written here: wait for it, or end it with /stop")
	case k.Turns.Delegated(scope):
		return store.Conflict("a delegated task still runs here: wait for it, or end it with /stop")
	}
	list, err := k.Store.SessionsIn(ctx, scope)
	for _, w := range workspaces(list) {
		if why := k.Files.Busy(ctx, w); why != "" {
			return store.Conflict("nothing can be undone now: " + why)
		}
	}
	return err
}

// workspaces returns the workspaces of sessions, each once.
func workspaces(list []turnlog.Session) (keys []message.WorkspaceKey) {
	seen := map[message.WorkspaceKey]bool{}
	for _, s := range list {
		if w := s.Key.Parse().Workspace(); !seen[w] {
			seen[w] = true
			keys = append(keys, w)
		}
	}
	return keys
}

// recordUndo records an undo in the audit log. If the host dies before, its next start does it.
func (k *Keeper) recordUndo(ctx context.Context, u snapshot.Undone) error {
	p := u.Plan
	detail := fmt.Sprintf("%d files restored, %d removed", p.Count.Restored, p.Count.Removed)
	if n := p.Count.Changed; n > 0 && u.Overwrote {
		detail += fmt.Sprintf(", %d overwritten that had changed since", n)
	} else if n > 0 {
		detail += fmt.Sprintf(", %d left that had changed since", n)
	}
	err := k.Store.AddAudit(ctx, []consent.AuditRow{{
		At: u.At, Kind: consent.AuditUndone, Subject: string(u.Session), Actor: string(u.By), Agent: u.Session.Agent(), Turn: p.Turn, Detail: detail,
	}})
	if err != nil {
		return err
	}
	return k.Files.RecordedUndo(u)
}

// recordUndos records the undos that the start has completed.
func (k *Keeper) recordUndos(ctx context.Context) {
	for _, u := range k.Files.Unrecorded() {
		if err := k.recordUndo(ctx, u); err != nil {
			k.Log.Warn("cannot record an undo of files", "session", u.Session, "error", err)
		}
	}
}
