//go:build unix

package pack

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// holdLock waits for the file and holds it. The kernel gives it back when the process ends, however it ends.
func holdLock(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}
