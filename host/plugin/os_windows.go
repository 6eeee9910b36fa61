package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// owner is not known by number on Windows.
func owner(fs.FileInfo) (uid int, ok bool) { return 0, false }

// errLocked means that another process holds a lock.
var errLocked = errors.New("another process holds it")

// flock takes an exclusive lock on a file, made where it is missing, and waits for it when wait is set.
func flock(name string, wait bool) (release func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	var how uint32 = windows.LOCKFILE_EXCLUSIVE_LOCK
	if !wait {
		how |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		err = errLocked
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
