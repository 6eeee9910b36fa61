package admin

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// Sessions are the sessions of a store, open for reading.
type Sessions interface {
	session.Source
	// Sessions is that of store.Turns.
	Sessions(ctx context.Context, limit int) ([]store.Session, error)
}

// ReadSessions calls do with the sessions of a configuration. A host may be running.
func ReadSessions(ctx context.Context, c *config.Config, do func(Sessions) error) error {
	_, err := read(ctx, c, func(r *sqlite.Reader) (struct{}, error) { return struct{}{}, do(r) })
	return err
}

// ChangeSessions calls do with the sessions of a configuration, which it may change. It fails while a host runs.
func ChangeSessions(ctx context.Context, c *config.Config, do func(store.Archive) error) error {
	_, err := change(ctx, c, func(s *sqlite.Store) (struct{}, error) { return struct{}{}, do(s) })
	return err
}

// Place returns what people have chosen for a place. A host may be running.
func Place(ctx context.Context, c *config.Config, key string) (store.Place, error) {
	return read(ctx, c, func(r *sqlite.Reader) (store.Place, error) { return r.Place(ctx, key) })
}
