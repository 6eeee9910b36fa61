package admin

import (
	"context"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/media"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// Usage sums up what model calls have used since a time. A host may be running.
func Usage(ctx context.Context, c *config.Config, by store.UsageKey, since time.Time) ([]gateway.UsageSum, error) {
	return read(ctx, c, func(r *sqlite.Reader) ([]gateway.UsageSum, error) {
		sums, err := r.SumUsage(ctx, by, store.UsageFilter{Since: since})
		return gateway.UsageSums(sums), err
	})
}

// Held sums up what senders hold. No host may be running: nothing is counted as running in the background. Where the engine does not answer,
// sandboxes are not counted, and the error says why.
func Held(ctx context.Context, c *config.Config) ([]gateway.Held, error) {
	holders, err := read(ctx, c, func(r *sqlite.Reader) ([]store.Holder, error) { return r.Holders(ctx) })
	if err != nil {
		return nil, err
	}
	running, err := sandboxes.Count(ctx, c)
	return backend.Held(quota.Holdings{
		Senders: backend.Senders(holders), Measure: fleet.FoldersOf(c.Store.Dir).Size, Media: media.Owned(filepath.Join(c.Store.Dir, "media")), Sandboxes: running,
	}), err
}

// Egress returns records of the log of egress. A host may be running.
func Egress(ctx context.Context, c *config.Config, f store.EgressFilter) ([]store.EgressRecord, error) {
	return read(ctx, c, func(r *sqlite.Reader) ([]store.EgressRecord, error) { return r.ListEgress(ctx, f) })
}
