// Package durable writes files that survive a loss of power.
//
// Start with WriteFile, or with Begin for contents that do not fit into memory. The package takes no locks.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// DraftPrefix begins the name of a file that is being written. Such a file without a writer was left by a crash.
const DraftPrefix = ".new-"

// WriteFile replaces a file so that a crash leaves the old or the new one.
func WriteFile(name string, text []byte, mode fs.FileMode) error {
	d, err := Begin(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer d.Discard()
	if _, err := d.Write(text); err != nil {
		return err
	}
	return d.Commit(name, mode)
}

// Draft is a file that is being written and has no name yet.
type Draft struct{ file *os.File }

// Begin makes an empty draft in a folder, which must be on the file system of the final name.
func Begin(dir string) (*Draft, error) {
	f, err := os.CreateTemp(dir, DraftPrefix+"*")
	if err != nil {
		return nil, err
	}
	return &Draft{f}, nil
}

// Write adds to the draft.
func (d *Draft) Write(p []byte) (int, error) { return d.file.Write(p) }

// Commit gives the draft its name and replaces a file that has it. The folder itself must be durable already.
func (d *Draft) Commit(name string, mode fs.FileMode) error {
	err := errors.Join(d.file.Chmod(mode), d.file.Sync(), d.file.Close())
	if err == nil {
		err = os.Rename(d.file.Name(), name)
	}
	if err == nil {
		err = SyncDir(filepath.Dir(name))
	}
	return err
}

// Discard removes a draft that was not committed; after Commit it does nothing.
func (d *Draft) Discard() {
	_ = d.file.Close()
	_ = os.Remove(d.file.Name())
}

// SyncDir makes the names in a folder durable.
func SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
