package channel

import (
	"context"
	"log/slog"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// Pauses between the attempts of a write.
const (
	persistFirst = 100 * time.Millisecond
	persistMost  = 5 * time.Second
)

// persist repeats a write until it succeeds: a full disk may have room again later. It gives up if somebody else
// has settled the matter (store.Settled), or when ctx ends.
//
// The end of ctx does not cancel an attempt. A cancelled write may still happen, and would not be noticed.
func persist(ctx context.Context, log *slog.Logger, write func(ctx context.Context) error) error {
	for wait := persistFirst; ; wait = min(2*wait, persistMost) {
		err := write(context.WithoutCancel(ctx))
		if err == nil || store.Settled(err) || ctx.Err() != nil {
			return err
		}
		log.Error("cannot write to the store; trying again", "error", err, "wait", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}
