package mailbox

import (
	"context"
	"time"
)

// Draft is a message of a channel that shows an answer while it is made. It is a view: the answer itself is in the outbox when it
// is ready, and completes the draft or takes its place. A turn may be lost before its first commit, and its messages answered by
// another one; so a draft belongs to the message that is answered.
type Draft struct {
	Inbox int64  // row of the first message that is answered; see message.Reply.Answers
	Key   string // under which it was sent
	// MessageID is the platform's; empty from before the draft is sent until its fate is known.
	MessageID string
	SentAt    time.Time
}

// Drafts keeps what is shown of answers that are not delivered yet.
type Drafts interface {
	// PutDraft inserts or replaces a draft, by Inbox.
	PutDraft(ctx context.Context, d Draft) error
	// DropDraft forgets a draft; one that is not there is no error.
	DropDraft(ctx context.Context, inbox int64) error
	// OpenDrafts forgets the drafts that nothing will complete, since their message is settled and no reply to it waits, and
	// returns the others in the order of Inbox.
	OpenDrafts(ctx context.Context) ([]Draft, error)
}
