// Package workspace keeps the folders of sessions on the host: one for each, below a root, and slots, which are empty
// folders of containers whose session is not known yet. A slot can become the workspace of a session, one that was there
// before included, whatever happens meanwhile.
//
// Start with Root. Enter Holds before you open a workspace or mount it. How a workspace gets into a slot stands in
// move.go, and how it gets out of it again after a crash in journal.go: Recover is for the start of a host. Nothing here
// knows of containers.
package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Path is a session's workspace below a root.
func Path(root, session string) string { return filepath.Join(root, Name(session)) }

// Name makes a session id fit for file and container names. Different ids stay different, those too that a stranger
// chooses for the purpose: 32 bits can be searched in a minute, so there is much of the digest in it.
func Name(id string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, id)
	sum := sha256.Sum256([]byte(id))
	return strings.Trim(safe[:min(len(safe), 24)], "-") + "-" + hex.EncodeToString(sum[:16])
}

// Owner is who commands run as in a folder.
type Owner struct{ UID, GID int }

// workloadID is the user and group of commands when the host runs as root and so cannot lend its own.
const workloadID = 1000

// Workload is that user.
func Workload() Owner { return Owner{workloadID, workloadID} }

// ready makes a folder that commands may own; root's folders are handed to workloadID.
func ready(folder string) (string, Owner, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", Owner{}, fmt.Errorf("make workspace: %w", err)
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return "", Owner{}, fmt.Errorf("make workspace: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return "", Owner{}, fmt.Errorf("make workspace: %s is not a folder", folder)
	}
	o := Owner{UID: int(st.Uid), GID: int(st.Gid)}
	if o.UID != 0 && o.GID != 0 {
		return folder, o, nil
	}
	if o.UID == 0 {
		o.UID = workloadID
	}
	if o.GID == 0 {
		o.GID = workloadID
	}
	if err := os.Chown(folder, o.UID, o.GID); err != nil {
		return "", Owner{}, fmt.Errorf("give workspace to user %d, because commands never run as root: %w", o.UID, err)
	}
	return folder, o, nil
}

// Rename gives the workspace of a session to another one, which has none as a rule; otherwise it becomes the folder "earlier-NAME" in
// that one's. One that is not there is no error: it was renamed before.
func Rename(root, was, now string) error {
	from, to := Path(root, was), Path(root, now)
	if _, err := os.Lstat(to); err == nil {
		to = filepath.Join(to, "earlier-"+filepath.Base(from))
	}
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
