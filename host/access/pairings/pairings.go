// Package pairings has what is kept of senders who were not known: their pairings, and the wrong codes of those who guess.
//
// Start with Pairing. Package pairing decides, and package sqlite keeps the rows; this package does neither.
package pairings

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// State is the life of a pairing.
type State string

// States of a pairing.
const (
	Open    State = "open" // its code waits for an owner
	Paired  State = "paired"
	Denied  State = "denied"
	Revoked State = "revoked"
)

// Pairing is what is known of one sender who was not known: the request that his code stands for, and what came of it.
type Pairing struct {
	Sender       message.SenderKey
	ID           string // of the request, time-ordered
	Name         string // what the sender calls himself
	Channel      string
	Conversation message.Conversation // where he asked
	Code         string
	State        State
	Role         string // of Paired
	Asked        time.Time
	Expires      time.Time // of Code
	By           string    // who decided
	Decided      time.Time
	// Until is when a row that is not paired has no use any more; while it has, the sender is given no code.
	Until time.Time
	// Told is when owners were last told that this sender asks, zero if never, and Notices are the messages that told them of this
	// request.
	Told    time.Time `json:",omitzero"`
	Notices []Notice  `json:",omitempty"`
}

// Notice is a reply that told an owner of a request.
type Notice struct {
	Key, Channel string
	Conversation message.Conversation
}

// Guesses count the wrong codes of one who tries them.
type Guesses struct {
	Guesser string // "instance:platform-id"
	Wrong   int
	Since   time.Time // the first of them
	Locked  time.Time // until then nothing is taken from him; zero while he may try
}

// Store keeps who was paired, who asks for it, and who guesses.
type Store interface {
	// AskPairing records a message in state Dropped and, with it, the pairing that it asks for and the replies. It does nothing when
	// the message is there already, and fresh is false.
	AskPairing(ctx context.Context, m message.Message, note string, p Pairing, turn string, replies []message.Reply) (fresh bool, err error)
	// PutPairing inserts or replaces a pairing, by Sender, and commits the replies with it. It returns those whose key was not there yet.
	PutPairing(ctx context.Context, p Pairing, turn string, replies []message.Reply) (fresh []message.Reply, err error)
	// DropPairing forgets a pairing; one that is not there is no error.
	DropPairing(ctx context.Context, sender message.SenderKey) error
	// ListPairings returns all of them in the order of Sender.
	ListPairings(ctx context.Context) ([]Pairing, error)
	// PutGuesses inserts or replaces a count, by Guesser; DropGuesses forgets one, ListGuesses returns all in the order of Guesser.
	PutGuesses(ctx context.Context, g Guesses) error
	DropGuesses(ctx context.Context, guesser string) error
	ListGuesses(ctx context.Context) ([]Guesses, error)
}
