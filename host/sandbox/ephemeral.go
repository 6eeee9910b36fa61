package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/removeall"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// An ephemeral session lasts no longer than its process: workspace and volumes go with it. A mark beside those of the processes names it,
// for the next process after a crash.

const ephemeralPrefix = "passing-"

// Ephemeral marks a session, before the first Get, as one that Discard ends. Where that does not come to it, Reconcile and Prune of a later
// process of this instance do.
func (m *Manager) Ephemeral(session string) error {
	return os.WriteFile(m.ephemeralMark(m.host.ID(), session), []byte(session), 0o600)
}

func (m *Manager) ephemeralMark(owner, session string) string {
	return filepath.Join(m.run, ephemeralPrefix+owner+"-"+workspace.Name(session))
}

// Discard ends an ephemeral session and removes everything that it had.
func (m *Manager) Discard(ctx context.Context, session string) error {
	return m.endEphemeral(ctx, m.ephemeralMark(m.host.ID(), session), session)
}

func (m *Manager) endEphemeral(ctx context.Context, mark, session string) error {
	err := errors.Join(m.Forget(ctx, session), removeall.Folder(workspace.Path(m.config.WorkspaceRoot, session)))
	if err != nil {
		return err // the mark stays for the next time
	}
	return os.Remove(mark)
}

// clearEphemeral discards the sessions whose processes no longer live.
func (m *Manager) clearEphemeral(ctx context.Context, alive map[string]bool) error {
	marks, all := filepath.Glob(filepath.Join(m.run, ephemeralPrefix+"*"))
	for _, mark := range marks {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(mark), ephemeralPrefix), "-")
		if owner == m.host.ID() || alive[owner] {
			continue
		}
		session, err := os.ReadFile(mark)
		switch {
		case err != nil:
		case mark == m.ephemeralMark(owner, string(session)):
			err = m.endEphemeral(ctx, mark, string(session))
		default: // the process was killed before it had written the mark, and so before it had made anything
			err = os.Remove(mark)
		}
		all = errors.Join(all, err)
	}
	return all
}
