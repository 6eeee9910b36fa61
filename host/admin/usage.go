package admin

import (
	"context"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/store/media"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// Usage sums up the usage of models since a time. A host may be running.
func Usage(ctx context.Context, c *config.Config, by usage.Key, since time.Time) ([]gateway.UsageSum, error) {
	return read(ctx, c, func(r *sqlstore.Reader) ([]gateway.UsageSum, error) {
		sums, err := r.SumUsage(ctx, by, usage.Filter{Since: since})
		return gateway.UsageSums(sums), err
	})
}

// Held sums up what senders hold. It assumes that no host is running, and counts no background processes. If the engine does not answer,
// sandboxes are not counted, and the error says why. launcher is the command that runs plugins in a jail.
func Held(ctx context.Context, c *config.Config, launcher []string) ([]gateway.Held, error) {
	holders, err := read(ctx, c, func(r *sqlstore.Reader) ([]turnlog.Holder, error) { return r.Holders(ctx) })
	if err != nil {
		return nil, err
	}
	running, err := sandboxes.Count(ctx, c, launcher)
	folders := fleet.FoldersOf(c.Store.Dir)
	return backend.Held(quota.Holdings{
		Senders: backend.Senders(holders), Measure: folders.Size, Snapshots: folders.SnapshotSize, Media: media.Owned(filepath.Join(c.Store.Dir, "media")), Sandboxes: running,
	}), err
}

// Egress returns records of the egress log. A host may be running.
func Egress(ctx context.Context, c *config.Config, f egress.RecordFilter) ([]egress.Record, error) {
	return read(ctx, c, func(r *sqlstore.Reader) ([]egress.Record, error) { return r.ListEgress(ctx, f) })
}
