//go:build !portable

package mounts

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Weak returns what Open does not guarantee on this system.
func Weak() []string { return nil }

// open follows the path once, and asks the kernel where it leads: if a process replaces a folder by a link meanwhile, the rules are still
// applied to the file that was opened.
func open(source string) (*Source, error) {
	fd, err := unix.Open(source, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), source)
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		f.Close()
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = isThere(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Source{Path: path, file: f, info: info}, nil
}

// isThere checks that the path that the kernel reports leads to the file, which is not the case once it is deleted.
func isThere(path string, info os.FileInfo) error {
	now, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !os.SameFile(now, info) {
		return errors.New("it is being replaced")
	}
	return nil
}

func identify(info os.FileInfo) ID {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ID{}
	}
	return ID{Dev: st.Dev, Ino: st.Ino}
}

// respelled returns the path: each file has the name by which it was found.
func respelled(path string) string { return path }
