package store

import (
	"context"
	"strconv"
	"strings"
)

// Trail is everything that is kept of one turn, or of a message that no turn took, as it was written down at the time.
type Trail struct {
	Turn      Turn       // the zero Turn where no turn took the message
	Inbox     []InboxRow // messages that it answers
	Steps     []Step
	Decisions []Decision // without their frames, texts and host calls
	Usage     []Usage
	Approvals []Approval // that it asked for, in the order in which it did
	Audit     []AuditRow
	Replies   []OutboxRow
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
	LastMessage(ctx context.Context, channel, conversation string) (InboxRow, error)
}

const messagePrefix = "message/"

// MessageID names an inbox row where the id of a turn could stand as well.
func MessageID(inbox int64) string { return messagePrefix + strconv.FormatInt(inbox, 10) }

// CommandTurn is what the replies to a command have for the id of a turn.
func CommandTurn(inbox int64) string { return "command-" + strconv.FormatInt(inbox, 10) }

// MessageRow is the inbox row that a MessageID names.
func MessageRow(id string) (inbox int64, ok bool) {
	digits, ok := strings.CutPrefix(id, messagePrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n > 0
}
