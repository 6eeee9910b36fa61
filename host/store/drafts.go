package store

import (
	"context"
	"time"
)

// Draft is a message of a channel that shows an answer while it is made. It is a view: the answer itself is in the outbox when it
// is ready, and completes the draft or takes its place.
type Draft struct {
	Key  string // of the reply that will complete it
	Turn string
	// MessageID is the platform's; empty from before the draft is sent until its fate is known.
	MessageID string
	SentAt    time.Time
}

// Drafts keeps what is shown of answers that are not delivered yet.
type Drafts interface {
	// PutDraft inserts or replaces a draft, by Key.
	PutDraft(ctx context.Context, d Draft) error
	// DropDraft forgets a draft; one that is not there is no error.
	DropDraft(ctx context.Context, key string) error
	// OpenDrafts forgets the drafts that nothing will complete, since their turn has ended and their reply does not wait, and
	// returns the others in the order of their keys.
	OpenDrafts(ctx context.Context) ([]Draft, error)
}
