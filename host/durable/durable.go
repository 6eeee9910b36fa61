// Package durable puts files where a loss of power does not take them.
//
// Start with WriteFile. The package knows nothing of what it writes, and takes no locks.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// DraftPrefix begins the name of a file that is being written. One that is there with nobody at work is what a crash has left.
const DraftPrefix = ".new-"

// WriteFile replaces a file so that a crash leaves the old or the new one.
func WriteFile(name string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), DraftPrefix+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err == nil {
		err = SyncDir(filepath.Dir(name))
	}
	return err
}

// SyncDir makes the names in a folder last.
func SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
