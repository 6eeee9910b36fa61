package channel

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// Waits between the tries of one write.
const (
	persistFirst = 100 * time.Millisecond
	persistMost  = 5 * time.Second
)

// persist makes one write until the store has taken it, for as long as the store has trouble: a full disk has room again
// some day. It ends without that when the row is not what it was, or with ctx.
//
// The end of ctx does not cut a try short. A write that was given up may still happen, and would not be noticed.
func persist(ctx context.Context, log *slog.Logger, write func(ctx context.Context) error) error {
	for wait := persistFirst; ; wait = min(2*wait, persistMost) {
		err := write(context.WithoutCancel(ctx))
		if err == nil || errors.Is(err, store.ErrConflict) || ctx.Err() != nil {
			return err
		}
		log.Error("the store has trouble; trying again", "error", err, "wait", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}
