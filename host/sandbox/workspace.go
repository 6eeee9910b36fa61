package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// workloadID is the user and group of commands when the host runs as root and so cannot lend its own.
const workloadID = 1000

// workspaces are the sessions' folders on the host, and the pool's.
type workspaces struct {
	root, pool string
	host       string // this process, for the names of slots
	// mu makes looking for a folder and making it one step. It is held for a few system calls.
	mu sync.Mutex
}

func newWorkspaces(root, instance, host string) *workspaces {
	return &workspaces{root: root, pool: filepath.Join(root, ".pool-"+short(instance)), host: host}
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

// prepare makes the session's folder if it is missing and says whose it is.
func (w *workspaces) prepare(session string) (string, owner, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
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
	return ready(filepath.Join(w.pool, w.host+"-"+key))
}

// claim makes a slot's folder the session's, unless the session has one already. A bind mount follows
// the folder, not its name.
func (w *workspaces) claim(slot, session string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.fresh(session) {
		return false, nil
	}
	if err := os.Rename(slot, w.path(session)); err != nil {
		return false, fmt.Errorf("claim warm workspace: %w", err)
	}
	return true, nil
}
