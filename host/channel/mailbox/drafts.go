package mailbox

import (
	"context"
	"time"
)

// Draft is a message of a channel that shows an answer while it is written. The answer itself is in the outbox when it is ready, and
// completes the draft or replaces it. A turn may be lost before its first commit and its messages answered by another one, so a draft
// belongs to the message that it answers.
type Draft struct {
	Inbox int64  // row of the first message that is answered; see message.Reply.Answers
	Key   string // under which it was sent
	// MessageID is the platform's id; empty until the outcome of the send is known.
	MessageID string
	SentAt    time.Time
}

// Drafts stores the drafts of answers that are not delivered yet.
type Drafts interface {
	// PutDraft inserts or replaces a draft, by Inbox.
	PutDraft(ctx context.Context, d Draft) error
	// DropDraft deletes a draft; it is no error if there is none.
	DropDraft(ctx context.Context, inbox int64) error
	// OpenDrafts deletes the drafts that nothing will complete, because their message is settled and no reply to it waits, and
	// returns the others in the order of Inbox.
	OpenDrafts(ctx context.Context) ([]Draft, error)
}
