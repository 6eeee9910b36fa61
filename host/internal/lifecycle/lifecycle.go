// Package lifecycle runs the parts of the host side by side and waits for them.
//
// Start with Group. The host decides the order in which groups begin and end.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Group is a set of parts that begin and end together. Its zero value has no log and is not usable.
type Group struct {
	Log *slog.Logger

	wg  sync.WaitGroup
	mu  sync.Mutex
	err error
}

// Go starts a part. If it fails, it calls stop, which ends all others.
func (g *Group) Go(name string, stop func(), part func() error) {
	g.wg.Go(func() {
		err := part()
		if err == nil || errors.Is(err, context.Canceled) {
			return
		}
		g.Log.Error("a part of the host failed", "part", name, "error", err)
		g.mu.Lock()
		g.err = errors.Join(g.err, fmt.Errorf("%s: %w", name, err))
		g.mu.Unlock()
		stop()
	})
}

// Wait waits until all parts have ended.
func (g *Group) Wait() { g.wg.Wait() }

// WaitFor is Wait for a limited time, and reports whether all parts have ended.
func (g *Group) WaitFor(d time.Duration) bool {
	done := make(chan struct{})
	go func() { // ends with the group, which the host waits for before it returns
		g.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

// Err joins the errors of the parts that failed.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}
