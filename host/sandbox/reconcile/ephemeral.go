package reconcile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// An ephemeral session lasts no longer than its process: its workspace and volumes are removed with it. A file beside those of the
// processes names it, for the next process after a crash.

const ephemeralPrefix = "passing-"

// Ephemeral marks a session, before the first Get, as one that Discard ends. If this process cannot do that, Reconcile or Prune of a later
// process of this instance does.
func (r *Reconciler) Ephemeral(session message.WorkspaceKey) error {
	return os.WriteFile(r.ephemeralMark(r.config.Host.ID(), session), []byte(session), 0o600)
}

func (r *Reconciler) ephemeralMark(owner string, session message.WorkspaceKey) string {
	return filepath.Join(r.config.Run, ephemeralPrefix+owner+"-"+workspace.Name(session))
}

// Discard ends an ephemeral session and removes everything that it had.
func (r *Reconciler) Discard(ctx context.Context, session message.WorkspaceKey) error {
	return r.endEphemeral(ctx, r.ephemeralMark(r.config.Host.ID(), session), session)
}

func (r *Reconciler) endEphemeral(ctx context.Context, mark string, session message.WorkspaceKey) error {
	err := errors.Join(r.config.Sessions.Forget(ctx, session), removeall.Folder(workspace.Path(r.config.WorkspaceRoot, session)))
	if err != nil {
		return err // the mark stays for the next attempt
	}
	return os.Remove(mark)
}

// clearEphemeral discards the sessions of dead processes.
func (r *Reconciler) clearEphemeral(ctx context.Context, alive map[string]bool) error {
	marks, all := filepath.Glob(filepath.Join(r.config.Run, ephemeralPrefix+"*"))
	for _, mark := range marks {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(mark), ephemeralPrefix), "-")
		if owner == r.config.Host.ID() || alive[owner] {
			continue
		}
		session, err := os.ReadFile(mark)
		switch {
		case err != nil:
		case mark == r.ephemeralMark(owner, message.WorkspaceKey(session)):
			err = r.endEphemeral(ctx, mark, message.WorkspaceKey(session))
		default: // the process was killed before it had written the mark, and so before it had created anything
			err = os.Remove(mark)
		}
		all = errors.Join(all, err)
	}
	return all
}
