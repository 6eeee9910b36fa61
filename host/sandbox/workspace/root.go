package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
)

// Host is this process among those that use the root.
type Host interface {
	// ID returns its id, of letters and digits.
	ID() string
	// Others returns the ids of the other living processes.
	Others() (map[string]bool, error)
}

// Config configures a Root.
type Config struct {
	Path string // absolute
	// Instance distinguishes the slots from those of other instances below the same root. It consists of letters and digits.
	Instance string
	Host     Host
	Holds    *Holds
}

// Root is a folder of the host with the workspaces of sessions and the slots of an instance. Its methods are safe for concurrent use.
type Root struct {
	path, pool string
	host       Host
	folders    folders
	holds      *Holds
	// mu makes checking for a folder and creating it atomic. It is held for a few system calls.
	mu sync.Mutex
}

// New returns a Root. It creates and reads nothing.
func New(c Config) *Root {
	return &Root{path: c.Path, pool: filepath.Join(c.Path, ".pool-"+c.Instance), host: c.Host, folders: hostFolders{}, holds: c.Holds}
}

// Path returns a session's workspace.
func (r *Root) Path(session message.WorkspaceKey) string { return Path(r.path, session) }

// Prepare creates the session's folder if it is missing and returns its owner. The caller has entered it in the holds.
func (r *Root) Prepare(session message.WorkspaceKey) (string, Owner, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.recover(session); err != nil {
		return "", Owner{}, err
	}
	return ready(r.Path(session))
}

// fresh reports whether the session has no workspace yet.
func (r *Root) fresh(session message.WorkspaceKey) bool {
	_, err := os.Lstat(r.Path(session))
	return errors.Is(err, fs.ErrNotExist)
}

// Slot creates a folder for a container without a session.
func (r *Root) Slot(key string) (string, Owner, error) {
	return ready(filepath.Join(r.pool, r.host.ID()+"-"+key))
}

// Claim turns a slot's folder into that of a session, which the caller has entered in the holds. The error is ErrStays if that is
// impossible and nothing has changed.
func (r *Root) Claim(slot string, session message.WorkspaceKey) error {
	switch fresh, err := r.claimFresh(slot, session); {
	case err != nil:
		return fmt.Errorf("claim warm workspace: %w", err)
	case fresh:
		return nil
	}
	if err := r.undisturbed(); err != nil {
		return fmt.Errorf("%w: %w", ErrStays, err)
	}
	done, alone := r.holds.alone(session)
	if !alone {
		return fmt.Errorf("%w: somebody else uses it", ErrStays)
	}
	defer done()
	if _, _, err := ready(r.Path(session)); err != nil {
		return fmt.Errorf("%w: %w", ErrStays, err)
	}
	m := newMove(r.folders, r.Path(session), slot)
	m.undisturbed = r.undisturbed
	if err := m.into(); err != nil {
		return fmt.Errorf("claim warm workspace: %w", err)
	}
	return nil
}

// undisturbed returns an error while other processes of the instance live, because their sandboxes are not counted in the holds.
func (r *Root) undisturbed() error {
	others, err := r.host.Others()
	if err == nil && len(others) > 0 {
		err = errors.New("another process may use it")
	}
	return err
}

// claimFresh does this if the session has no folder yet. A bind mount follows the folder, not its name.
func (r *Root) claimFresh(slot string, session message.WorkspaceKey) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.recover(session); err != nil {
		return false, err
	}
	if !r.fresh(session) {
		return false, nil
	}
	return true, os.Rename(slot, r.Path(session))
}

// recover completes an interrupted move of the session's folder.
func (r *Root) recover(session message.WorkspaceKey) error {
	return recoverMoves(r.folders, r.path, filepath.Base(r.Path(session)))
}

// ClearSlots removes the slots of dead processes, except those with entries that could not be put back.
func (r *Root) ClearSlots(alive map[string]bool) error {
	recovery := recoverMoves(r.folders, r.path, "")
	moves, err1 := journal(r.path)
	slots, err2 := filepath.Glob(filepath.Join(r.pool, "*"))
	if err := errors.Join(err1, err2); err != nil {
		return errors.Join(recovery, err)
	}
	all := recovery
	for _, slot := range slots {
		owner, _, _ := strings.Cut(filepath.Base(slot), "-")
		needed := slices.ContainsFunc(moves, func(m move) bool { return m.slot == slot })
		if owner != r.host.ID() && !alive[owner] && !needed {
			all = errors.Join(all, removeall.Folder(slot))
		}
	}
	return all
}
