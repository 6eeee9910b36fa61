package turnlog

import (
	"context"
	"time"
)

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
	// PlaceSessions returns the sessions of a place, of every agent and epoch, by key.
	SessionsIn(ctx context.Context, scope string) ([]Session, error)
	// DeleteSession removes a session. ErrConflict while a turn of it runs, or one that was delegated in it; ErrNotFound when there is
	// none.
	DeleteSession(ctx context.Context, d Deletion) error
}

// Deletion is an order to remove a session: its turns and steps with those that were delegated in it, summaries, whole results, notes that
// were written in its turns, requests for approval, grants for the session, and what its messages and replies say. What others are
// answerable for stays, for as long as it is kept: decisions, the audit log, usage, the egress log. What is not in the store, or is on its
// way, becomes a Leftover in the same transaction.
type Deletion struct {
	Key string
	By  string // the audit row's actor
	At  time.Time
}

// Leftover is something of a session that is gone which is still to be removed.
type Leftover struct {
	Kind LeftoverKind
	Name string
}

// LeftoverKind says what a leftover is.
type LeftoverKind string

// Kinds of leftovers.
const (
	LeftHome    LeftoverKind = "home"    // containers and volumes, by message.SessionKey.Home
	LeftMedia   LeftoverKind = "media"   // a file that one of its turns had, by digest; it may be no file, and others may have it too
	LeftMoved   LeftoverKind = "moved"   // a workspace whose session has another key now: a JSON array of both homes
	LeftReplies LeftoverKind = "replies" // that were on their way, by turn; Prune removes them
)

// Leftovers are kept until they are dropped.
type Leftovers interface {
	ListLeftovers(ctx context.Context, kind LeftoverKind) ([]Leftover, error)
	// DropLeftover says that it is removed; one that is not there is no error.
	DropLeftover(ctx context.Context, l Leftover) error
	// NamedInSteps reports whether a step that is there has a digest in it. It reads them all.
	NamedInSteps(ctx context.Context, digest string) (bool, error)
}
