// Package standalone lets a fake platform that was written for tests run as a program: it gives it the testing.TB that it asks for.
package standalone

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// TB is a test that never ends by itself. What fails ends the program.
type TB struct {
	testing.TB // for the methods that a fake platform has no use for; nil

	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	cleanup []func()
}

// New makes one.
func New() *TB {
	ctx, cancel := context.WithCancel(context.Background())
	return &TB{ctx: ctx, cancel: cancel}
}

// Close does what was registered with Cleanup, the latest first.
func (t *TB) Close() {
	t.cancel()
	t.mu.Lock()
	list := t.cleanup
	t.cleanup = nil
	t.mu.Unlock()
	for i := len(list) - 1; i >= 0; i-- {
		list[i]()
	}
}

// Helper does nothing.
func (t *TB) Helper() {}

// Name names no test.
func (t *TB) Name() string { return "standalone" }

// Failed is false: what fails does not come back.
func (t *TB) Failed() bool { return false }

// Context ends with Close.
func (t *TB) Context() context.Context { return t.ctx }

// Cleanup registers f for Close.
func (t *TB) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanup = append(t.cleanup, f)
}

// Log writes to standard error.
func (t *TB) Log(args ...any) { fmt.Fprintln(os.Stderr, args...) }

// Logf writes to standard error.
func (t *TB) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Error ends the program.
func (t *TB) Error(args ...any) { t.Fatal(args...) }

// Errorf ends the program.
func (t *TB) Errorf(format string, args ...any) { t.Fatalf(format, args...) }

// Fatal ends the program.
func (t *TB) Fatal(args ...any) {
	t.Log(args...)
	os.Exit(1)
}

// Fatalf ends the program.
func (t *TB) Fatalf(format string, args ...any) {
	t.Logf(format, args...)
	os.Exit(1)
}
