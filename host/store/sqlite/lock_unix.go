//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/store"
)

// The last child of a killed Flynn holds its lock until it executes its own program; the next Flynn waits that long.
const (
	lockPatience = 2 * time.Second
	lockPause    = 10 * time.Millisecond
)

// ErrLocked is store.ErrLocked.
var ErrLocked = store.ErrLocked

// Lock locks a store's folder for this process until the file is closed. The kernel releases the lock when the process ends.
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock store folder: %w", err)
	}
	for late := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if held := errors.Is(err, unix.EWOULDBLOCK); held && time.Now().Before(late) {
			continue
		} else if held {
			err = fmt.Errorf("%w: stop it or choose another store.dir", ErrLocked)
		}
		f.Close()
		return nil, fmt.Errorf("lock store folder %s: %w", dir, err)
	}
}
