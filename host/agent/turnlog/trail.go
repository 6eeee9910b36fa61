package turnlog

import (
	"context"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Trail is everything that is kept of one turn, or of a message that no turn took, as it was written down at the time.
type Trail struct {
	Turn      Turn               // the zero Turn where no turn took the message
	Inbox     []mailbox.InboxRow // messages that it answers
	Steps     []Step
	Decisions []journal.Decision // without their frames, texts and host calls
	Usage     []usage.Row
	Approvals []consent.Approval // that it asked for, in the order in which it did
	Audit     []consent.AuditRow
	Replies   []mailbox.OutboxRow
	Children  []Turn // that it delegated
	Cut       bool   // there is more than MaxTrail rows of something
}

// MaxTrail is how many rows of each kind a Trail has at most.
const MaxTrail = 1000

// Trails gives what is kept of a turn in one consistent view.
type Trails interface {
	// Trail finds a turn by its id or by the MessageID of a message that it answers, or returns ErrNotFound.
	Trail(ctx context.Context, id string) (Trail, error)
	// LastMessage returns the latest message of a channel's conversation; empty is any. ErrNotFound where there is none.
	LastMessage(ctx context.Context, channel, conversation string) (mailbox.InboxRow, error)
}
