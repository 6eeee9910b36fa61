package sqlstore

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/store"
)

// Child implements turnlog.Children.
func (s *Store) Child(ctx context.Context, parent, call string) (turnlog.Turn, error) {
	if parent == "" {
		return turnlog.Turn{}, store.ErrNotFound
	}
	return one(ctx, s.read, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE parent = ? AND parent_call = ?", parent, call)
}

// ChildTurn implements turnlog.Children.
func (s *Store) ChildTurn(ctx context.Context, id string) (turnlog.Turn, error) {
	return one(ctx, s.read, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE id = ? AND parent <> ''", id)
}
