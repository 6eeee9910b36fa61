//go:build !portable

package removeall

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// openUnreadable opens a folder that its owner may not read. A chmod by name would follow a link that has replaced it.
func openUnreadable(at int, name string, flags int) (int, error) {
	handle, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(handle)
	self := fmt.Sprintf("/proc/self/fd/%d", handle)
	if err := unix.Chmod(self, ownerRights); err != nil {
		return -1, err
	}
	return unix.Open(self, flags&^unix.O_NOFOLLOW, 0)
}
