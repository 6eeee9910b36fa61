package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
)

// snapshotSuffix makes the key under which the quota counts the snapshots of a session.
const snapshotSuffix message.WorkspaceKey = "\x00snapshots"

// newSnapshots returns the store of snapshots, and completes the undos that a crash has interrupted.
func (f *Fleet) newSnapshots() {
	f.snapshots = snapshot.New(snapshot.Config{
		Dir: f.folders.snapshots, Workspaces: f.folders.Workspaces, Limit: func() int64 { return f.snapshotLimit.Load() },
		Reserve: func(session message.WorkspaceKey, bytes int64) error {
			return f.quota.Write(session+snapshotSuffix, bytes)
		}, Log: f.log,
	})
	var err error
	if f.unrecorded, err = f.snapshots.Recover(); err != nil {
		f.log.Error("cannot complete the undo of files", "error", err)
	}
}

// Snapshot keeps the files of a workspace before a turn changes them, once for each turn. If that is impossible, the turn goes on, and an
// undo says why there is nothing to return to.
func (f *Fleet) Snapshot(ctx context.Context, session message.WorkspaceKey, turn string) {
	defer f.holds.Enter(session)()
	if err := f.fetch(ctx, session); err != nil {
		f.log.Warn("a snapshot of files may be old", "session", session, "error", machine.Reason(err))
	}
	f.snapshots.Take(ctx, session, turn)
}

// Settle is called at the end of a turn that has called Snapshot.
func (f *Fleet) Settle(ctx context.Context, session message.WorkspaceKey, turn string) {
	defer f.holds.Enter(session)()
	if err := f.fetch(ctx, session); err != nil {
		f.log.Warn("a snapshot of files may be old", "session", session, "error", machine.Reason(err))
	}
	f.snapshots.Settle(ctx, session, turn)
	f.quota.Changed(session + snapshotSuffix)
}

// SnapshotsOf returns the snapshots of a store whose host does not run.
func SnapshotsOf(store string, log *slog.Logger) *snapshot.Store {
	folders := FoldersOf(store)
	return snapshot.New(snapshot.Config{Dir: folders.snapshots, Workspaces: folders.Workspaces, Limit: func() int64 { return 0 }, Log: log})
}

// fetch brings the workspace on the host up to date.
func (f *Fleet) fetch(ctx context.Context, session message.WorkspaceKey) error {
	if m := f.sandboxes(); m != nil {
		return m.Fetch(ctx, session)
	}
	return nil
}

// FileNotes returns what the next turn has to know about the files of a session, and ToldFiles forgets the first of them.
func (f *Fleet) FileNotes(session message.WorkspaceKey) []snapshot.Note {
	return f.snapshots.Notes(session)
}

// ToldFiles implements the end of FileNotes.
func (f *Fleet) ToldFiles(session message.WorkspaceKey, notes int) { f.snapshots.Told(session, notes) }

// NoteFiles adds a note for the next turn.
func (f *Fleet) NoteFiles(session message.WorkspaceKey, text string) error {
	return f.snapshots.Note(session, text)
}

// Changed returns when a turn last was about to change the files of a session, or the zero time.
func (f *Fleet) Changed(session message.WorkspaceKey) time.Time { return f.snapshots.Latest(session) }

// SnapshotBytes returns the size of the snapshots of a session.
func (f *Fleet) SnapshotBytes(session message.WorkspaceKey) int64 {
	return f.folders.SnapshotSize(session)
}

// Busy says what uses the workspace of a session, or "".
func (f *Fleet) Busy(ctx context.Context, session message.WorkspaceKey) string {
	processes := f.hosts.processes(ctx, session)
	using := ""
	for _, l := range f.Live() {
		if l.Session == session {
			processes = append(processes, l.Processes...)
			if l.Idle.IsZero() {
				using = "its sandbox is in use, by a terminal or a copy of files: close it first"
			}
		}
	}
	var running []string
	for _, p := range processes {
		if p.Running {
			running = append(running, fmt.Sprintf("%s (%.60q)", p.ID, p.Script))
		}
	}
	if len(running) > 0 {
		return "background commands run in its workspace: " + strings.Join(running, ", ") + ". Have the agent end them first (process.kill)"
	}
	return using
}

// PlanUndo returns what an undo would change.
func (f *Fleet) PlanUndo(ctx context.Context, session message.WorkspaceKey, back int) (snapshot.Plan, error) {
	defer f.holds.Enter(session)()
	if err := f.fetch(ctx, session); err != nil {
		return snapshot.Plan{}, err
	}
	return f.snapshots.Plan(ctx, session, back)
}

// Undo brings the files of a session back. The caller sees to it that no turn runs. The session's sandboxes end first: nothing can write
// meanwhile, and one on an engine elsewhere gets the files when it begins.
func (f *Fleet) Undo(ctx context.Context, session message.WorkspaceKey, r snapshot.Request) (snapshot.Undone, error) {
	if m := f.sandboxes(); m != nil {
		if err := m.Fetch(ctx, session); err != nil {
			return snapshot.Undone{}, err
		}
		if err := m.Destroy(ctx, session); err != nil {
			return snapshot.Undone{}, err
		}
	}
	defer f.holds.Enter(session)()
	defer f.quota.Changed(session)
	return f.snapshots.Undo(ctx, session, r)
}

// Unrecorded returns the undos that were completed at the start, and RecordedUndo ends one.
func (f *Fleet) Unrecorded() []snapshot.Undone { return f.unrecorded }

// RecordedUndo ends an undo that was recorded.
func (f *Fleet) RecordedUndo(u snapshot.Undone) error { return f.snapshots.Recorded(u) }

// CopyWorkspace makes the workspace of a new session of the files of another one: all, or nothing if there is an error. left are the turns
// that are not part of the new session; see snapshot.Store.Copy.
func (f *Fleet) CopyWorkspace(ctx context.Context, from, to message.WorkspaceKey, left []string) (snapshot.Copied, error) {
	defer f.holds.Enter(from)()
	if err := f.fetch(ctx, from); err != nil {
		return snapshot.Copied{}, err
	}
	c, err := f.snapshots.Copy(ctx, from, to, left, func(bytes int64) error { return f.quota.Write(to, bytes) })
	if err != nil {
		f.quota.Forget(to)
	}
	return c, err
}
