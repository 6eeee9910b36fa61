package admin

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// read calls do with the store of a configuration, open for reading. A host may be running.
func read[T any](ctx context.Context, c *config.Config, do func(*sqlite.Reader) (T, error)) (out T, err error) {
	r, err := sqlite.OpenReader(ctx, c.Store.Dir)
	if err != nil {
		return out, err
	}
	out, err = do(r)
	return out, errors.Join(err, r.Close())
}

// change calls do with the store of a configuration, open for writing. It fails while a host runs.
func change[T any](ctx context.Context, c *config.Config, do func(*sqlite.Store) (T, error)) (out T, err error) {
	s, err := sqlite.Open(ctx, c.Store.Dir)
	if err != nil {
		return out, err
	}
	out, err = do(s)
	return out, errors.Join(err, s.Close())
}
