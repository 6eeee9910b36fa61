// Package workspace manages the folders of sessions on the host: one for each below a root, and slots, which are empty folders for
// containers without a session. A slot can become the workspace of a new or a returning session, whatever happens meanwhile.
//
// Start with Root. Enter a workspace in Holds before you open or mount it. move.go moves a workspace into a slot, and journal.go puts it
// back after a crash: call Recover when the host starts. The package knows nothing of containers.
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

	"github.com/flynnhost/flynn/host/message"
)

// Path returns a session's workspace below a root.
func Path(root string, session message.WorkspaceKey) string {
	return filepath.Join(root, Name(session))
}

// Name converts a session id to a name for files and containers. Different ids have different names, even if a stranger chooses them to
// collide: it takes a minute to find collisions of 32 bits, so the name contains much of a digest.
func Name(id message.WorkspaceKey) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, string(id))
	sum := sha256.Sum256([]byte(id))
	return strings.Trim(safe[:min(len(safe), 24)], "-") + "-" + hex.EncodeToString(sum[:16])
}

// Owner is the user that commands in a folder run as.
type Owner struct{ UID, GID int }

// workloadID is the user and group of commands if the host runs as root and so cannot use its own.
const workloadID = 1000

// Workload returns that user.
func Workload() Owner { return Owner{workloadID, workloadID} }

// ready creates a folder that commands may own; a folder of root is given to workloadID.
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
	if o.UID == int(st.Uid) && os.Geteuid() != 0 {
		return folder, o, nil // only the group is changed, which this user may not do, and which a folder of mode 0700 does not need
	}
	if err := os.Chown(folder, o.UID, o.GID); err != nil {
		return "", Owner{}, fmt.Errorf("give workspace to user %d, because commands never run as root: %w", o.UID, err)
	}
	return folder, o, nil
}

// Rename gives the workspace of a session to another one. If that has a workspace already, it becomes the folder "earlier-NAME" in it. It
// is not an error if there is none: it was renamed before.
func Rename(root, was, now string) error {
	from, to := Path(root, message.WorkspaceKey(was)), Path(root, message.WorkspaceKey(now))
	if _, err := os.Lstat(to); err == nil {
		to = filepath.Join(to, "earlier-"+filepath.Base(from))
	}
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
