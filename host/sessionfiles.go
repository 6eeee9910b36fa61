package host

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// SessionsAtHand opens the sessions of a configuration to be read; a host may be running. The caller closes it.
func SessionsAtHand(ctx context.Context, c *config.Config) (*sqlite.Reader, error) {
	return sqlite.OpenReader(ctx, c.Store.Dir)
}

// ChangeSessions lets do change the sessions of a configuration while no host runs.
func ChangeSessions(ctx context.Context, c *config.Config, do func(store.Archive) error) error {
	s, err := sqlite.Open(ctx, c.Store.Dir)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}
