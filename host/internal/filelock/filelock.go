// Package filelock makes processes of one machine wait for each other, or notice each other, by a lock on a file.
//
// Start with Wait and Try. The kernel gives a lock back when its process ends, however it ends. The lock is on the file and not on its
// name: a file that its holder removes is not to be locked anew, and both functions fail with fs.ErrNotExist then.
package filelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrHeld means that another process holds the lock.
var ErrHeld = errors.New("another process holds it")

// Wait locks the file, made where it is missing, as soon as nobody else holds it.
func Wait(name string) (release func(), err error) { return hold(name, true) }

// Try locks the file, made where it is missing, or fails with ErrHeld.
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

// still reports whether an open file is the one of that name.
func still(f *os.File, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(name)
	return err == nil && os.SameFile(opened, named)
}
