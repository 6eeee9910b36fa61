package admin

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// Usage sums up what model calls have used since a time. A host may be running.
func Usage(ctx context.Context, c *config.Config, by store.UsageKey, since time.Time) ([]gateway.UsageSum, error) {
	return read(ctx, c, func(r *sqlite.Reader) ([]gateway.UsageSum, error) {
		sums, err := r.SumUsage(ctx, by, store.UsageFilter{Since: since})
		return gateway.UsageSums(sums), err
	})
}

// Egress returns records of the log of egress. A host may be running.
func Egress(ctx context.Context, c *config.Config, f store.EgressFilter) ([]store.EgressRecord, error) {
	return read(ctx, c, func(r *sqlite.Reader) ([]store.EgressRecord, error) { return r.ListEgress(ctx, f) })
}
