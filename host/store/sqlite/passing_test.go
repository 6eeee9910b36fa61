//go:build linux

package sqlite

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// shortOfDescriptors takes all descriptors of the process, until the test calls back.
func shortOfDescriptors(t *testing.T) (back func()) {
	t.Helper()
	var limit, low syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low = limit
	low.Cur = min(limit.Cur, 256)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var taken []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		taken = append(taken, f)
	}
	back = func() {
		for _, f := range taken {
			f.Close()
		}
		taken = nil
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(back)
	return back
}

// TestALackOfDescriptorsDelaysAReading reads while no connection can be opened: it ends when there are descriptors again.
func TestALackOfDescriptorsDelaysAReading(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.read.SetMaxIdleConns(0) // each reading opens a connection
	back := shortOfDescriptors(t)
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.Transcript(short, "s", 1); !errors.Is(err, store.ErrPassing) {
		t.Errorf("without descriptors: %v, want %v", err, store.ErrPassing)
	}
	if _, err := s.Approval(short, "x"); errors.Is(err, store.ErrNotFound) || err == nil {
		t.Errorf("a row that cannot be read is not there: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Transcript(context.Background(), "s", 1)
		done <- err
	}()
	select {
	case err := <-done:
		t.Errorf("it ended without descriptors: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	back()
	if err := <-done; err != nil {
		t.Errorf("with descriptors again: %v", err)
	}
}
