package edit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/config"
)

// Reload has the flynn that runs on a file take it up, and returns the generation in force. An error says why the one before stays.
type Reload func(ctx context.Context) (generation uint64, err error)

// ErrRefused is the error of an edit that the running flynn refuses. The file is as before.
var ErrRefused = errors.New("the running flynn refuses the edit")

// Apply saves the file, and has the running flynn take it up; if that refuses, the file becomes what it was. reload is nil while none runs.
// Once the file is written the end of ctx stops nothing: half of an edit is none.
func (f *File) Apply(ctx context.Context, getenv func(string) string, checks []config.Check, reload Reload) (generation uint64, err error) {
	if err := f.Save(getenv, checks...); err != nil || reload == nil {
		return 0, err
	}
	generation, err = reload(context.WithoutCancel(ctx))
	if err == nil {
		return generation, nil
	}
	if undone := f.Undo(); undone != nil {
		return 0, fmt.Errorf("%w (%w), and the file could not be brought back: %w", ErrRefused, err, undone)
	}
	return 0, fmt.Errorf("%s is as before, because %w: %w", f.path, ErrRefused, err)
}

// Writable returns an error if the file cannot be edited: if it is a link, belongs to another user, or its folder cannot be written.
func Writable(path string) error {
	if _, _, err := read(path); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	folder := filepath.Dir(path)
	draft, err := os.CreateTemp(folder, ".flynn-write-*")
	if err != nil {
		return fmt.Errorf("cannot write into the folder %s: %w", folder, bare(err))
	}
	return errors.Join(draft.Close(), os.Remove(draft.Name()))
}
