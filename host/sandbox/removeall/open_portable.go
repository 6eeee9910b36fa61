//go:build unix && (!linux || portable)

package removeall

import "golang.org/x/sys/unix"

// openUnreadable opens a folder that its owner may not read. If a link has replaced it, the link's own mode changes, and the link is not
// opened.
func openUnreadable(at int, name string, flags int) (int, error) {
	if err := unix.Fchmodat(at, name, ownerRights, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	return unix.Openat(at, name, flags, 0)
}
