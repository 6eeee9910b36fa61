package store

import "context"

// SessionTurn is one turn of a session with its steps.
type SessionTurn struct {
	Turn  Turn
	Steps []Step
}

// Archive moves whole sessions.
type Archive interface {
	// SessionTurns returns the turns of a session, oldest first.
	SessionTurns(ctx context.Context, key string) ([]Turn, error)
	// PutSession writes a session that is not there with all its turns and the summary in force, if any, and makes it the present one of its place; ErrConflict when it,
	// a later one of its place and agent, or one of the turns is there.
	PutSession(ctx context.Context, s Session, turns []SessionTurn, sum *Summary) error
	// DeleteSession removes a session with its turns and steps. ErrConflict while a turn of it runs, ErrNotFound when there is none.
	// What was decided about its messages stays in the log of decisions.
	DeleteSession(ctx context.Context, key string) error
}
