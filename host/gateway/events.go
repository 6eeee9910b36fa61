package gateway

import (
	"context"

	"github.com/flynnhost/flynn/host/store"
)

// Events tells what has changed, so that a page loads it again.
type Events interface {
	// Read returns the first changes after a number, and which ones are known; see store.Journal.
	Read(ctx context.Context, after int64, limit int) ([]store.Change, store.Kept, error)
	// More returns a channel that is closed when there are changes after those that Read returns now. Call it before Read.
	More() <-chan struct{}
	// Over returns a channel that is closed when there will be no more changes.
	Over() <-chan struct{}
	// Enter counts a reader until leave is called.
	Enter() (leave func())
}

// Event is the data of an event in the stream.
type Event struct {
	Kind store.ChangeKind `json:"kind"`
	ID   string           `json:"id" doc:"What has changed, a conversation as channel/id; empty where a list is loaded as a whole"`
}

// Stand is the data of the first event of a stream.
type Stand struct {
	Seq   int64  `json:"seq" doc:"After which change the stream begins"`
	Epoch string `json:"epoch" doc:"Names the store; with another one, load everything again"`
}

// Visible reports whether a caller may learn of a change. An owner may learn of all, others of what is theirs.
func Visible(by Caller, c store.Change) bool {
	if by.Owner() {
		return true
	}
	switch c.Kind {
	case store.Conversations, store.Approvals, store.SignIns:
		return c.Of != "" && c.Of == by.Sender
	}
	return false
}
