// Package filelock locks files against other processes of this machine.
//
// Start with Wait and Try. The kernel releases a lock when its process ends, however it ends. The lock is on the file and not on its
// name: after the holder has removed the file, both functions fail with fs.ErrNotExist.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// ErrHeld means that another process holds the lock.
var ErrHeld = errors.New("another process holds it")

// Wait waits for the lock of the file, and creates the file if it is missing.
func Wait(name string) (release func(), err error) { return hold(name, true) }

// Try is Wait, but fails with ErrHeld instead of waiting.
func Try(name string) (release func(), err error) { return hold(name, false) }

func hold(name string, wait bool) (release func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = lock(f, wait)
	if err == nil && !still(f, name) {
		err = fs.ErrNotExist // its holder has removed it
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// still reports whether an open file still has that name.
func still(f *os.File, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(name)
	return err == nil && os.SameFile(opened, named)
}

// TryDir locks a folder as Try locks a file; a missing folder is an error.
func TryDir(name string) (release func(), err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if err := lock(f, false); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// lookEvery is how often WaitDir tries: a wait in the kernel would not end with the context.
const lookEvery = 10 * time.Millisecond

// WaitDir is TryDir, but waits until ctx ends; the error is ErrHeld then.
func WaitDir(ctx context.Context, name string) (release func(), err error) {
	for {
		if release, err = TryDir(name); !errors.Is(err, ErrHeld) {
			return release, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(lookEvery):
		}
	}
}
