package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// workloadID is the user and group of commands when the host runs as root and so cannot lend its own.
const workloadID = 1000

// workspaces are the sessions' folders on the host, and the pool's.
type workspaces struct {
	root, pool string
	host       *presence // this process, for the names of slots
	folders    folders
	holds      *Holds
	// mu makes looking for a folder and making it one step. It is held for a few system calls.
	mu sync.Mutex
}

func newWorkspaces(root, instance string, host *presence, holds *Holds) *workspaces {
	return &workspaces{
		root: root, pool: filepath.Join(root, ".pool-"+short(instance)), host: host, folders: hostFolders{}, holds: holds,
	}
}

// short is a name-safe digest.
func short(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:4])
}

// safeName makes a session id fit for file and container names. Different ids stay different, those too that a stranger
// chooses for the purpose: he can try out 32 bits in a minute, so it takes more of the digest than short does.
func safeName(id string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, id)
	sum := sha256.Sum256([]byte(id))
	return strings.Trim(safe[:min(len(safe), 24)], "-") + "-" + hex.EncodeToString(sum[:16])
}

func (w *workspaces) path(session string) string { return Workspace(w.root, session) }

// Workspace is a session's folder below a root of workspaces.
func Workspace(root, session string) string { return filepath.Join(root, safeName(session)) }

// owner is who commands run as in a folder.
type owner struct{ uid, gid int }

// prepare makes the session's folder if it is missing and says whose it is. The caller has entered it in the holds.
func (w *workspaces) prepare(session string) (string, owner, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.recover(session); err != nil {
		return "", owner{}, err
	}
	return ready(w.path(session))
}

// ready makes a folder that commands may own; root's folders are handed to workloadID.
func ready(folder string) (string, owner, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", owner{}, fmt.Errorf("make workspace: %w", err)
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return "", owner{}, fmt.Errorf("make workspace: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return "", owner{}, fmt.Errorf("make workspace: %s is not a folder", folder)
	}
	o := owner{uid: int(st.Uid), gid: int(st.Gid)}
	if o.uid != 0 && o.gid != 0 {
		return folder, o, nil
	}
	if o.uid == 0 {
		o.uid = workloadID
	}
	if o.gid == 0 {
		o.gid = workloadID
	}
	if err := os.Chown(folder, o.uid, o.gid); err != nil {
		return "", owner{}, fmt.Errorf("give workspace to user %d, because commands never run as root: %w", o.uid, err)
	}
	return folder, o, nil
}

// fresh says whether the session has no workspace yet.
func (w *workspaces) fresh(session string) bool {
	_, err := os.Lstat(w.path(session))
	return errors.Is(err, fs.ErrNotExist)
}

// slot makes a folder for a container whose session is not known yet.
func (w *workspaces) slot(key string) (string, owner, error) {
	return ready(filepath.Join(w.pool, w.host.id+"-"+key))
}

// claim makes a slot's folder the session's, who has entered it in the holds. The error is errStays if the session cannot
// have it and nothing has happened.
func (w *workspaces) claim(slot, session string) error {
	switch fresh, err := w.claimFresh(slot, session); {
	case err != nil:
		return fmt.Errorf("claim warm workspace: %w", err)
	case fresh:
		return nil
	}
	if err := w.undisturbed(); err != nil {
		return fmt.Errorf("%w: %w", errStays, err)
	}
	done, alone := w.holds.alone(session)
	if !alone {
		return fmt.Errorf("%w: somebody else uses it", errStays)
	}
	defer done()
	if _, _, err := ready(w.path(session)); err != nil {
		return fmt.Errorf("%w: %w", errStays, err)
	}
	m := newMove(w.folders, w.path(session), slot)
	m.undisturbed = w.undisturbed
	if err := m.into(); err != nil {
		return fmt.Errorf("claim warm workspace: %w", err)
	}
	return nil
}

// undisturbed refuses while other processes of the instance live: their sandboxes are not among the holds.
func (w *workspaces) undisturbed() error {
	others, err := w.host.others()
	if err == nil && len(others) > 0 {
		err = errors.New("another process may use it")
	}
	return err
}

// claimFresh does so if the session has no folder yet. A bind mount follows the folder, not its name.
func (w *workspaces) claimFresh(slot, session string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.recover(session); err != nil {
		return false, err
	}
	if !w.fresh(session) {
		return false, nil
	}
	return true, os.Rename(slot, w.path(session))
}

// recover completes what an earlier move of the session's folder has left undone.
func (w *workspaces) recover(session string) error {
	return recoverWorkspaces(w.folders, w.root, filepath.Base(w.path(session)))
}

// clearSlots drops the slots that no living process has, but for those that hold what could not be put back.
func (w *workspaces) clearSlots(alive map[string]bool) error {
	recovery := recoverWorkspaces(w.folders, w.root, "")
	moves, err1 := journal(w.root)
	slots, err2 := filepath.Glob(filepath.Join(w.pool, "*"))
	if err := errors.Join(err1, err2); err != nil {
		return errors.Join(recovery, err)
	}
	all := recovery
	for _, slot := range slots {
		owner, _, _ := strings.Cut(filepath.Base(slot), "-")
		needed := slices.ContainsFunc(moves, func(m move) bool { return m.slot == slot })
		if owner != w.host.id && !alive[owner] && !needed {
			all = errors.Join(all, os.RemoveAll(slot))
		}
	}
	return all
}
