//go:build portable || !linux

package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// Weak returns what Open does not guarantee on this system.
func Weak() []string {
	return []string{"a program that can write to the folder above a mounted one can replace it between its check and its use by the engine"}
}

// open resolves the path's links and opens the result. Outside Linux, engines run in virtual machines, whose view of the folder cannot be
// compared with this one.
func open(source string) (*Source, error) {
	path, err := filepath.EvalSymlinks(source)
	if err != nil {
		return nil, err
	}
	if path, err = spelled(path, namesIn); err != nil {
		return nil, err
	}
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() && !before.Mode().IsRegular() {
		return nil, errors.New("neither a folder nor a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(before, info) {
		err = errors.New("it is being replaced")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Source{Path: path, file: f, info: info}, nil
}

func identify(info os.FileInfo) ID {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ID{}
	}
	return ID{Dev: uint64(st.Dev), Ino: st.Ino}
}

// namesIn returns the names in a folder.
func namesIn(folder string) ([]string, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// respelled returns an existing path as its folders spell it, or unchanged if they do not say.
func respelled(path string) string {
	if found, err := spelled(path, namesIn); err == nil {
		return found
	}
	return path
}
