package host

import (
	"context"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/observe/shadowlog"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// ShadowReports reads what shadow policies would have changed, beside a host that may be running.
func ShadowReports(ctx context.Context, c *config.Config, f store.ShadowFilter, examples int) ([]shadowlog.Report, error) {
	return read(ctx, c, func(r *sqlite.Reader) ([]shadowlog.Report, error) { return shadowlog.Reports(ctx, r, f, examples) })
}
