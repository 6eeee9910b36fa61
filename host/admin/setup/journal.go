package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/flynnhost/flynn/host/internal/durable"
)

// Journal remembers what files and folders were before, so that Undo can bring that back. Its zero value is ready for use.
type Journal struct{ undo []func() error }

// Keep remembers a file before it is written or removed. A missing file is removed by Undo, as are the folders that MakeDir makes.
func (j *Journal) Keep(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		j.add(func() error { return ignoreMissing(os.Remove(path)) })
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	text, err := os.ReadFile(path)
	if err == nil {
		j.add(func() error { return durable.WriteFile(path, text, info.Mode().Perm()) })
	}
	return err
}

// MakeDir makes a folder for its owner alone. Undo removes it with everything in it if it was missing.
func (j *Journal) MakeDir(path string) error {
	above := filepath.Dir(path)
	if _, err := os.Stat(above); errors.Is(err, fs.ErrNotExist) {
		if err := j.MakeDir(above); err != nil {
			return err
		}
	}
	err := os.Mkdir(path, 0o700)
	switch {
	case err == nil:
		j.add(func() error { return os.RemoveAll(path) })
	case errors.Is(err, fs.ErrExist):
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a folder", path)
		}
		return err
	}
	return err
}

// Undo brings back what was there before, the last change first. It returns what it could not bring back.
func (j *Journal) Undo() error {
	var errs []error
	for _, undo := range slices.Backward(j.undo) {
		errs = append(errs, undo())
	}
	j.undo = nil
	return errors.Join(errs...)
}

// Done forgets everything: what was written stays.
func (j *Journal) Done() { j.undo = nil }

// Empty reports whether there is nothing to undo.
func (j *Journal) Empty() bool { return len(j.undo) == 0 }

func (j *Journal) add(undo func() error) { j.undo = append(j.undo, undo) }

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
