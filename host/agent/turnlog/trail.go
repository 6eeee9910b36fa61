package turnlog

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Trail is all that is stored about one turn, or about a message that no turn took.
type Trail struct {
	Turn      Turn               // zero if no turn took the message
	Inbox     []mailbox.InboxRow // messages that the turn answers
	Steps     []Step
	Decisions []journal.Decision // without their frames, texts and host calls
	Usage     []usage.Row
	Approvals []consent.Approval // requests of the turn, in order
	Audit     []consent.AuditRow
	Replies   []mailbox.OutboxRow
	Children  []Turn // turns that it delegated
	Cut       bool   // some rows were left out because of MaxTrail
}

// MaxTrail bounds the rows of each kind in a Trail.
const MaxTrail = 1000

// Trails reads all that is stored about a turn in one consistent view.
type Trails interface {
	// Trail finds a turn by its id or by the MessageID of a message that it answers, or returns ErrNotFound.
	Trail(ctx context.Context, id string) (Trail, error)
	// LastMessage returns the latest message of a conversation of a channel; empty arguments match any. It returns ErrNotFound if there
	// is none.
	LastMessage(ctx context.Context, channel, conversation string) (mailbox.InboxRow, error)
}

// Lists lists turns, and messages that no turn took.
type Lists interface {
	// LatestTurns returns the latest turns whose id is below before, latest first, with the first message of each; "" is no bound.
	LatestTurns(ctx context.Context, f TurnFilter, before string) ([]Begun, error)
	// LatestUnanswered is LatestTurns for messages that no turn will take: they were dropped or stale. 0 is no bound. The agent of the filter
	// excludes all.
	LatestUnanswered(ctx context.Context, f TurnFilter, before int64) ([]mailbox.InboxRow, error)
	// SessionsOn returns the latest sessions of some channel instances, latest first.
	SessionsOn(ctx context.Context, channels []string, limit int) ([]Session, error)
}

// Begun is a turn, and the beginning of the text of its first message.
type Begun struct {
	Turn
	Text string
}

// TurnFilter selects turns; zero fields select all but the limit.
type TurnFilter struct {
	Person         message.SenderKey
	Agent, Channel string
	State          string // of the turn or of the message
	Since          time.Time
	Limit          int
}
