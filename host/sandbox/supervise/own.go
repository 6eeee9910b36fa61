//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// ownWord as the first argument makes this program change the owner of one folder and end. The host uses it in a separate container after
// it has created a volume: an engine's new volume belongs to root, and commands never run as root.
const ownWord = "own"

// The answers of `own UID GID PATH` on stdout: the folder has the requested owner, or it keeps another one, whose id follows.
const (
	owned   = "owned"
	foreign = "foreign"
)

// runOwn gives the root of a mounted volume to the workload's user. It needs no capability but CAP_CHOWN.
func runOwn(args []string) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("run only as process 1 of a sandbox container, not as process %d", os.Getpid())
	}
	if len(args) != 3 {
		return fmt.Errorf("usage: %s UID GID PATH", ownWord)
	}
	uid, uidErr := strconv.Atoi(args[0])
	gid, gidErr := strconv.Atoi(args[1])
	if uidErr != nil || gidErr != nil || uid <= 0 || gid <= 0 {
		return fmt.Errorf("refuse owner %s:%s", args[0], args[1])
	}
	said := owned
	err := own(args[2], uid, gid)
	var other foreignError
	switch {
	case errors.As(err, &other):
		said = foreign + " " + strconv.FormatUint(uint64(other.uid), 10)
	case err != nil:
		return err
	}
	_, unsaid := fmt.Println(said)
	return errors.Join(err, unsaid)
}

// own changes the owner of the folder itself, not of anything below it. It accepts only the root of a mount that belongs to root: a folder
// of another user already contains that user's files.
func own(folder string, uid, gid int) error {
	if !path.IsAbs(folder) || !isMount(folder) {
		return fmt.Errorf("refuse %s: it is not a mount", folder)
	}
	fd, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", folder, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat %s: %w", folder, err)
	}
	switch st.Uid {
	case uint32(uid):
		return nil
	case 0:
		return os.NewSyscallError("chown "+folder, unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH))
	}
	return foreignError{folder, st.Uid}
}

// foreignError refuses a folder that belongs to another user.
type foreignError struct {
	folder string
	uid    uint32
}

func (e foreignError) Error() string {
	return fmt.Sprintf("refuse %s: it belongs to user %d", e.folder, e.uid)
}
