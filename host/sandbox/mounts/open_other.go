//go:build !linux

package mounts

import (
	"errors"
	"os"
	"path/filepath"
)

// open resolves the path's links and opens the result. Outside Linux, engines run in virtual machines, whose view of the folder cannot be
// compared with this one.
func open(source string) (*Source, error) {
	path, err := filepath.EvalSymlinks(source)
	if err != nil {
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

func identify(os.FileInfo) ID { return ID{} }
