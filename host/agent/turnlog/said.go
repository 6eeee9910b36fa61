package turnlog

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Words is a search over all that was said.
type Words struct {
	Text  string            // words, all of which must be there; the last may be the beginning of one
	Of    message.SenderKey // only in turns of this sender; empty means all
	Below int64             // only hits with a lesser ID; 0 means all
	Limit int
}

// Hit is a text that was found.
type Hit struct {
	ID           int64 // later texts have greater ones
	Channel      string
	Conversation string
	Turn         string
	Agent        string // that answers
	ByAgent      bool   // the agent said it, and not the sender
	Key          string // event id of a message, or idempotency key of a reply
	At           time.Time
	Parts        []Part // an excerpt
}

// Part is a piece of an excerpt.
type Part struct {
	Text string `json:"text"`
	Hit  bool   `json:"hit,omitempty" doc:"It is what was searched for"`
}

// Title is the title of a conversation.
type Title struct {
	Channel, Conversation string
	Text                  string
	Turn                  string // of whose message it was made; empty if a person chose it
}

// Talk finds what was said, and has the titles of conversations.
type Talk interface {
	// SearchSaid returns texts that were said in conversations, latest first. Texts are found from their turn's begin until their session is
	// deleted.
	SearchSaid(ctx context.Context, w Words) ([]Hit, error)
	// Title returns a title, or ErrNotFound.
	Title(ctx context.Context, channel, conversation string) (Title, error)
	// SetTitle writes a title. One that was made of a message does not replace another one. It goes with the conversation, or with its turn.
	SetTitle(ctx context.Context, t Title) error
}
