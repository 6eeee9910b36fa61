package turnlog

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// SessionTurn is one turn of a session with its steps.
type SessionTurn struct {
	Turn  Turn
	Steps []Step
}

// WholeSession is a session with all its turns and its summary, if any.
type WholeSession struct {
	Session Session
	Turns   []SessionTurn
	Summary *Summary
}

// Archive writes and deletes whole sessions.
type Archive interface {
	// SessionTurns returns the turns of a session, oldest first.
	SessionTurns(ctx context.Context, key message.SessionKey) ([]Turn, error)
	// PutSession writes a new session with all its turns and its summary, if any, and makes it the present session of its scope. It
	// returns ErrConflict if the session, a later one of its scope and agent, or one of the turns exists.
	PutSession(ctx context.Context, s Session, turns []SessionTurn, sum *Summary) error
	// PutSessions is PutSession for several sessions, all or none.
	PutSessions(ctx context.Context, list []WholeSession) error
	// SessionsIn returns the sessions of a scope, of every agent and epoch, by key.
	SessionsIn(ctx context.Context, scope string) ([]Session, error)
	// DeleteSession deletes a session. It returns ErrConflict while one of its turns or a turn delegated by it runs, and ErrNotFound if
	// there is no such session.
	DeleteSession(ctx context.Context, d Deletion) error
}

// Branch is a conversation that continues another one.
type Branch struct {
	Channel      string
	Conversation message.Conversation
	Sender       message.SenderKey
}

// Deletion is a request to delete a session: its turns, delegated turns and steps, its summaries and whole results, the notes written
// in its turns, its requests for approval and its grants, and the text of its messages and replies. Records that account for others'
// actions stay until they expire: decisions, the audit log, usage, the egress log. Data outside the store, or under way, becomes a
// Leftover in the same transaction.
type Deletion struct {
	Key message.SessionKey
	By  string // actor of the audit row
	At  time.Time
}

// Leftover is data of a deleted session that is still to be removed.
type Leftover struct {
	Kind LeftoverKind
	Name string
}

// LeftoverKind is the kind of a leftover.
type LeftoverKind string

// Kinds of leftovers.
const (
	LeftContainers LeftoverKind = "home"    // containers and volumes, by message.WorkspaceKey
	LeftMedia      LeftoverKind = "media"   // file of one of its turns, by digest; it may be gone, and others may use it
	LeftMoved      LeftoverKind = "moved"   // workspace of a session whose key has changed: a JSON array of the old and the new key
	LeftReplies    LeftoverKind = "replies" // unsent replies, by turn; Prune removes them
)

// Leftovers stores leftovers until they are dropped.
type Leftovers interface {
	ListLeftovers(ctx context.Context, kind LeftoverKind) ([]Leftover, error)
	// DropLeftover removes the entry. It is no error if there is none.
	DropLeftover(ctx context.Context, l Leftover) error
	// NamedInSteps reports whether a stored step contains a digest. It reads all steps.
	NamedInSteps(ctx context.Context, digest string) (bool, error)
}
