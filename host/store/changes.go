package store

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// ChangeKind names a list that people look at.
type ChangeKind string

// The kinds of changes.
const (
	Conversations ChangeKind = "conversations"
	Approvals     ChangeKind = "approvals" // with grants and elevated mode
	People        ChangeKind = "people"
	Plugins       ChangeKind = "plugins"
	Schedules     ChangeKind = "schedules"
	Memory        ChangeKind = "memory"
	Policies      ChangeKind = "policies"
	Decisions     ChangeKind = "decisions" // of policies
	Configuration ChangeKind = "configuration"
	Halt          ChangeKind = "halt"
	Usage         ChangeKind = "usage"
	Sandboxes     ChangeKind = "sandboxes"
	SignIns       ChangeKind = "sign-ins"
	Warnings      ChangeKind = "logs-warn" // of the host's log
)

// ChangeKinds are all kinds.
func ChangeKinds() []ChangeKind {
	return []ChangeKind{
		Conversations, Approvals, People, Plugins, Schedules, Memory, Policies, Decisions, Configuration, Halt, Usage, Sandboxes, SignIns, Warnings,
	}
}

// Change says that something on a list is not what it was. It does not say how: the list does.
type Change struct {
	Seq  int64
	Kind ChangeKind
	// ID names what has changed, a conversation as channel/id; it is empty where a list is loaded as a whole.
	ID string
	// Of is the sender whose it is; empty if it is nobody's.
	Of message.SenderKey
	At time.Time
}

// Kept says which changes are known.
type Kept struct {
	Epoch string // of this store
	UpTo  int64  // changes up to this number are not known any more
	Last  int64  // the latest change
}

// From reports whether all changes after a number are known.
func (k Kept) From(after int64) bool { return k.UpTo <= after && after <= k.Last }

// Journal keeps the latest change of each thing. The store itself records what is in it, with the write that changes it; others note what
// is not.
type Journal interface {
	// NoteChanges records changes of what is not in the store.
	NoteChanges(ctx context.Context, list []Change) error
	// Changes returns the first changes after a number, and which ones are known: if those after the number are not, the list has gaps.
	Changes(ctx context.Context, after int64, limit int) ([]Change, Kept, error)
	// PruneChanges forgets changes from before a time, and all but the latest so many.
	PruneChanges(ctx context.Context, before time.Time, most int) error
	// Committed returns a channel that is closed after the next commit.
	Committed() <-chan struct{}
}
