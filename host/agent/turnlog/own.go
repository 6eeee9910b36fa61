package turnlog

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Own finds what belongs to one sender: private conversations in which nobody else was answered. Platforms may give the id of a
// conversation to another person later; then it belongs to neither.
type Own interface {
	// ConversationsOf returns the latest of a sender's conversations, latest first, without those of schedules.
	ConversationsOf(ctx context.Context, sender message.SenderKey, limit int) ([]Conversation, error)
	// BelongsTo reports whether a conversation is a sender's: he was answered there, and nobody else was or waits to be.
	BelongsTo(ctx context.Context, sender message.SenderKey, conversation message.ConversationKey) (bool, error)
	// SessionsOf returns the sessions in which one of the sender keys of a person, and nobody else, was answered, by key, without those of
	// delegated turns.
	SessionsOf(ctx context.Context, person ...message.SenderKey) ([]message.SessionKey, error)
}

// Conversation is a conversation with turns.
type Conversation struct {
	Channel, ID string
	Agent       string // of the latest turn
	Turns       int
	Last        time.Time
}
