package store

import "context"

// Children finds turns that other turns have delegated.
type Children interface {
	// Child returns the turn that a tool call of a turn has made, or ErrNotFound.
	Child(ctx context.Context, parent, call string) (Turn, error)
	// ChildTurn returns a child by its id, or ErrNotFound.
	ChildTurn(ctx context.Context, id string) (Turn, error)
}
