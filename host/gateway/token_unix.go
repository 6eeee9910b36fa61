//go:build unix

package gateway

import (
	"io/fs"
	"os"
	"path/filepath"
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

// ofOneUser reports whether this is root, and the file and its folder belong to one user, who alone can write to the folder.
func ofOneUser(path string, info fs.FileInfo) bool {
	dir, err := os.Lstat(filepath.Dir(path))
	if err != nil || os.Geteuid() != 0 || !dir.IsDir() || dir.Mode().Perm()&0o022 != 0 {
		return false
	}
	file, ok1 := info.Sys().(*syscall.Stat_t)
	folder, ok2 := dir.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && file.Uid == folder.Uid
}
