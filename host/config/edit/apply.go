package edit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Reload has the flynn that runs on a file take it up, and returns the generation in force. An error says why the one before stays.
type Reload func(ctx context.Context) (generation uint64, err error)

// ErrRefused is the error of an edit that the running flynn refuses. The file is as before.
var ErrRefused = errors.New("the running flynn refuses the edit")

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
