// Package pairings defines the stored state of unknown senders: their pairings, and the wrong codes of those who guess.
//
// Start with Pairing. Package pairing decides, and package sqlite stores the rows; this package does neither.
package pairings

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// State is the state of a pairing.
type State string

// States of a pairing.
const (
	Open    State = "open" // waits for an owner's decision
	Paired  State = "paired"
	Denied  State = "denied"
	Revoked State = "revoked"
)

// Pairing is the stored state of a sender who was unknown: his request, and its outcome.
type Pairing struct {
	Sender       message.SenderKey
	ID           string // of the request, time-ordered
	Name         string // the sender's display name
	Channel      string
	Conversation message.Conversation // of the request
	Code         string
	State        State
	Role         string // set in state Paired
	Asked        time.Time
	Expires      time.Time // of Code
	By           string    // the actor who decided
	Decided      time.Time
	// Until is when the row of an unpaired sender can be deleted; until then he gets no new code.
	Until time.Time
	// Told is when owners last got a notice about this sender, zero if never, and Notices are the notices of this request.
	Told    time.Time `json:",omitzero"`
	Notices []Notice  `json:",omitempty"`
}

// Notice is a reply that told an owner about a request.
type Notice struct {
	Key, Channel string
	Conversation message.Conversation
}

// Guesses counts the wrong codes of a sender.
type Guesses struct {
	Guesser string // "instance:platform-id"
	Wrong   int
	Since   time.Time // time of the first of them
	Locked  time.Time // end of the lock; zero while he may try
}

// Store stores pairings and wrong codes.
type Store interface {
	// AskPairing records a message in state Dropped together with the pairing that it requests and the replies. If the message exists
	// already it does nothing, and fresh is false.
	AskPairing(ctx context.Context, m message.Message, note string, p Pairing, turn string, replies []message.Reply) (fresh bool, err error)
	// PutPairing inserts or replaces a pairing, by Sender, and commits the replies with it. It returns the replies whose key is new.
	PutPairing(ctx context.Context, p Pairing, turn string, replies []message.Reply) (fresh []message.Reply, err error)
	// DropPairing deletes a pairing. It is no error if there is none.
	DropPairing(ctx context.Context, sender message.SenderKey) error
	// ListPairings returns all pairings in the order of Sender.
	ListPairings(ctx context.Context) ([]Pairing, error)
	// PutGuesses inserts or replaces a count, by Guesser. DropGuesses deletes one, and ListGuesses returns all in the order of Guesser.
	PutGuesses(ctx context.Context, g Guesses) error
	DropGuesses(ctx context.Context, guesser string) error
	ListGuesses(ctx context.Context) ([]Guesses, error)
}
