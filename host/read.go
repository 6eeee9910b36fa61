package host

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// read lets do read the store of a configuration; a host may be running.
func read[T any](ctx context.Context, c *config.Config, do func(*sqlite.Reader) (T, error)) (out T, err error) {
	r, err := sqlite.OpenReader(ctx, c.Store.Dir)
	if err != nil {
		return out, err
	}
	out, err = do(r)
	return out, errors.Join(err, r.Close())
}
