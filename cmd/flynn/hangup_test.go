package main

import (
	"context"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestHangups sends a process SIGHUPs while its terminal is there, going and gone.
func TestHangups(t *testing.T) {
	for _, tt := range []struct {
		name    string
		there   bool          // at the start
		goes    time.Duration // after the signal; 0 is never
		before  bool          // the terminal went before the signal
		reloads int
		ends    bool
	}{
		{name: "a service", reloads: 1},
		{name: "a signal to a process in a terminal", there: true, reloads: 1},
		{name: "a terminal that is closed", there: true, before: true, ends: true},
		{name: "a shell that ends its jobs before itself", there: true, goes: closing / 2, reloads: 1, ends: true},
		{name: "a terminal that is closed long after a signal", there: true, goes: 10 * closing, reloads: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var there atomic.Bool
				there.Store(tt.there)
				signals := make(chan os.Signal, 1)
				ctx, reloads, done := sortHangups(context.Background(), signals, there.Load(), there.Load)
				defer done()
				if tt.before {
					there.Store(false)
				}
				signals <- syscall.SIGHUP
				if tt.goes > 0 {
					time.AfterFunc(tt.goes, func() { there.Store(false) })
				}
				time.Sleep(20 * closing)
				if got := len(reloads); got != tt.reloads {
					t.Errorf("%d reloads, want %d", got, tt.reloads)
				}
				if got := ctx.Err() != nil; got != tt.ends {
					t.Errorf("ended: %v, want %v", got, tt.ends)
				}
			})
		})
	}
}
