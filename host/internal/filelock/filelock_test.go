package filelock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestOneHoldsTheLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	release, err := Try(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Try(name); !errors.Is(err, ErrHeld) {
		t.Errorf("a second one: %v", err)
	}
	next := make(chan error)
	go func() {
		again, err := Wait(name)
		if err == nil {
			again()
		}
		next <- err
	}()
	release()
	if err := <-next; err != nil {
		t.Errorf("the one that waits: %v", err)
	}
	if _, err := Try(filepath.Join(name, "below")); err == nil {
		t.Error("locked a file below a file")
	}
}

func TestRemovedFileIsNoLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	release, err := Try(name)
	if err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := os.Remove(name); err != nil {
		t.Skipf("an open file stays here: %v", err)
	}
	release()
	if still(held, name) {
		t.Error("a removed file is taken for the one of its name")
	}
	if _, err := Wait(filepath.Join(name, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestTryDir(t *testing.T) {
	dir := t.TempDir()
	release, err := TryDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryDir(dir); !errors.Is(err, ErrHeld) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := TryDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the lock leaves %v in the folder, %v", left, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := WaitDir(gone, dir); !errors.Is(err, ErrHeld) {
		t.Errorf("a wait that ended: %v", err)
	}
	release()
	again, err := WaitDir(t.Context(), dir)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	again()
}
