//go:build unix

package gateway

import (
	"io/fs"
	"os"
	"syscall"
)

// openNoFollow opens a file that is not a symbolic link. It does not block, so that a fifo of that name does not hang the start.
func openNoFollow(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
