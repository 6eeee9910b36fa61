package host

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/shadowlog"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// ShadowReports reads what shadow policies would have changed, beside a host that may be running.
func ShadowReports(ctx context.Context, c *config.Config, f store.ShadowFilter, examples int) (reports []shadowlog.Report, err error) {
	log, err := sqlite.OpenReader(ctx, c.Store.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return shadowlog.Reports(ctx, log, f, examples)
}
