package admin

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/database"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// read calls do with the store of a configuration, open for reading. A host may be running.
func read[T any](ctx context.Context, c *config.Config, do func(*sqlstore.Reader) (T, error)) (out T, err error) {
	r, err := database.At(c.Store.Location()).OpenReader(ctx)
	if err != nil {
		return out, err
	}
	out, err = do(r)
	return out, errors.Join(err, r.Close())
}

// change calls do with the store of a configuration, open for writing. It fails while a host runs.
func change[T any](ctx context.Context, c *config.Config, do func(store.Store) (T, error)) (out T, err error) {
	s, err := database.At(c.Store.Location()).Open(ctx)
	if err != nil {
		return out, err
	}
	out, err = do(s)
	return out, errors.Join(err, s.Close())
}
