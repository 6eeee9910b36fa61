// Package mailbox declares what channels store: accepted messages (the inbox), replies until they are delivered (the outbox), and drafts.
//
// Start with Inbox and Outbox, which package sqlite implements and package channel uses. The package stores and delivers nothing itself.
package mailbox

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// InboxState is the state of an inbox row: New until a turn ends it or it is set aside.
type InboxState string

// States of an inbox row.
const (
	InboxNew     InboxState = "new"
	InboxDone    InboxState = "done"    // a turn answered it
	InboxDropped InboxState = "dropped" // refused by admission or routing; Note says why
	InboxStale   InboxState = "stale"   // too old on arrival; recorded, not answered
	InboxFailed  InboxState = "failed"  // its turn failed for good; the sender was told
	InboxNoted   InboxState = "noted"   // not answered by itself; the next turn in its conversation sees it, and makes it Done
)

// InboxRow is an accepted message.
type InboxRow struct {
	ID      int64
	Message message.Message
	State   InboxState
	Note    string
}

// Inbox keeps accepted messages. (Channel, EventID) is unique for ever.
type Inbox interface {
	// AppendInbox commits a message; fresh is false if it was there already.
	AppendInbox(ctx context.Context, m message.Message, state InboxState, note string) (row InboxRow, fresh bool, err error)
	// PendingInbox returns the rows in state New, oldest first.
	PendingInbox(ctx context.Context) ([]InboxRow, error)
	// NotedInbox returns the rows in state Noted, oldest first.
	NotedInbox(ctx context.Context) ([]InboxRow, error)
	// SetInbox ends a row without a turn.
	SetInbox(ctx context.Context, id int64, state InboxState, note string) error
}

// Earlier finds messages by the ids of their channel.
type Earlier interface {
	// FindInbox returns the row of an event, or ErrNotFound.
	FindInbox(ctx context.Context, channel, eventID string) (InboxRow, error)
	// FindSent returns the reply that became the message with the platform's id, or ErrNotFound. It searches the latest turns of the
	// conversation.
	FindSent(ctx context.Context, channel, conversation, platformID string) (OutboxRow, error)
	// LastPrivate returns the private conversation on a sender's channel in which the sender was last answered, or ErrNotFound. It
	// searches the sender's latest turns.
	LastPrivate(ctx context.Context, channel string, sender message.SenderKey) (message.Conversation, error)
	// Senders returns the keys of all senders who were ever answered, sorted.
	Senders(ctx context.Context) ([]message.SenderKey, error)
}

// OutboxState is the state of an outbox row.
type OutboxState string

// States of an outbox row. Sending is committed before a send whose repetition the channel could not
// recognise, so that a crash leaves a mark.
const (
	OutboxPending OutboxState = "pending"
	OutboxSending OutboxState = "sending"
	OutboxSent    OutboxState = "sent"
	OutboxDead    OutboxState = "dead"
)

// OutboxRow is a reply to be delivered.
type OutboxRow struct {
	ID       int64
	Turn     string
	Reply    message.Reply
	State    OutboxState
	Attempts int
	NextTry  time.Time
	Pause    time.Duration // before NextTry, when it was set; 0: not known, or none
	Note     string
	// PlatformIDs are the platform's ids of the sent messages.
	PlatformIDs []string
	// Parts are the texts of the messages to send, fixed before the first of them is sent; empty for one message with the reply's own
	// text. State, Attempts, NextTry, Pause and Note are about the current part.
	Parts []string
	// Part counts the delivered parts.
	Part int
}

// Outbox keeps replies until they are delivered. Key is unique.
type Outbox interface {
	// UnsentOutbox returns rows in state Pending or Sending, oldest first.
	UnsentOutbox(ctx context.Context) ([]OutboxRow, error)
	// SetOutbox stores everything of a row but ID and Turn, by Reply.Key.
	SetOutbox(ctx context.Context, row OutboxRow) error
	// AddReplies commits replies that belong to no step of a turn, and returns those whose key was not there yet.
	AddReplies(ctx context.Context, turn string, replies []message.Reply) (fresh []message.Reply, err error)
	// Replies returns the replies of a turn.
	Replies(ctx context.Context, turn string) ([]OutboxRow, error)
}

// Settler is an Outbox with a write that need not be durable at once.
type Settler interface {
	// SettleOutbox is like SetOutbox for a row whose loss would do no harm. It may wait some milliseconds, to be committed with other
	// writes.
	SettleOutbox(ctx context.Context, row OutboxRow) error
}

const messagePrefix = "message/"

// MessageID returns the name of an inbox row where the id of a turn is also accepted.
func MessageID(inbox int64) string { return messagePrefix + strconv.FormatInt(inbox, 10) }

// CommandTurn returns the turn id of the replies to a command.
func CommandTurn(inbox int64) string { return "command-" + strconv.FormatInt(inbox, 10) }

// MessageRow returns the inbox row that a MessageID names.
func MessageRow(id string) (inbox int64, ok bool) {
	digits, ok := strings.CutPrefix(id, messagePrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n > 0
}
