package sqlite

import (
	"context"

	"github.com/flynnhost/flynn/host/store"
)

// Child implements store.Children.
func (s *Store) Child(ctx context.Context, parent, call string) (store.Turn, error) {
	if parent == "" {
		return store.Turn{}, store.ErrNotFound
	}
	return one(ctx, s.read, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE parent = ? AND parent_call = ?", parent, call)
}

// ChildTurn implements store.Children.
func (s *Store) ChildTurn(ctx context.Context, id string) (store.Turn, error) {
	return one(ctx, s.read, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE id = ? AND parent <> ''", id)
}
