package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestGroup: a part that fails stops the others and is named; one that was cancelled has not failed.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Group{Log: slog.New(slog.DiscardHandler)}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		g.Go("waits", stop, func() error { <-ctx.Done(); return ctx.Err() })
		if g.WaitFor(time.Second) {
			t.Error("a part that runs has ended")
		}
		g.Go("breaks", stop, func() error { return errors.New("broken") })
		if !g.WaitFor(time.Second) {
			t.Error("a failure stops nothing")
		}
		g.Wait()
		if err := g.Err(); err == nil || err.Error() != "breaks: broken" || strings.Contains(err.Error(), "waits") {
			t.Errorf("error %v", err)
		}
	})
}
