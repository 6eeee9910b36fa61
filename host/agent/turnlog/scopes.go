package turnlog

import (
	"context"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Place is where sessions are: a person's private chat, a group, a thread, or several private chats that an owner has linked. It
// has one session for each agent that answers there.
type Scope struct {
	Key string
	// Epoch counts the beginnings, from 1; Began is when the last one was, zero for the first, and Why what it began by.
	Epoch int
	Began time.Time
	Why   string
	// Agent and Tier are chosen by people for all that comes; empty is what the configuration says.
	Agent, Tier string
}

// Session is the text of the message.SessionKey of an agent's present session in the place.
func (p Scope) Session(agent string) string {
	return message.SessionKey{Scope: p.Key, Agent: agent, Epoch: p.Epoch}.String()
}

// Why an epoch began.
const (
	BeganAsked = "asked" // somebody wanted it
	BeganIdle  = "idle"  // nothing was said for long
)

// Settlement carries out an order that a message gives about its place, in one transaction.
type Settlement struct {
	Inbox int64 // the message; it is done afterwards
	Note  string
	Scope *Scope // nil changes nothing there
	// Summary is of one of its sessions; nil where none was asked for.
	Summary *Summary
	// Deletions are of sessions that are there, of which no turn runs.
	Deletions []Deletion
	// Told are rows in state Noted that no turn is to be told of any more; those in another state stay as they are.
	Told    []int64
	Turn    string // that the replies belong to
	Replies []message.Reply
}

// Places keeps what people chose for places and began there.
type Scopes interface {
	// Place returns what is kept of a place; one of which nothing is kept is in its first epoch.
	Scope(ctx context.Context, key string) (Scope, error)
	// SetPlace writes a place.
	SetScope(ctx context.Context, p Scope) error
	// Settle carries out an order; ErrConflict when its message was settled before, and then nothing changes.
	Settle(ctx context.Context, s Settlement) error
}

// Halt is the kill switch.
type Halt struct {
	On     bool
	Reason string
	By     string
	Since  time.Time
}

// String is why nothing runs, or "" when the switch is off.
func (h Halt) String() string {
	switch {
	case !h.On:
		return ""
	case h.Reason == "":
		return "stopped by " + h.By
	}
	return fmt.Sprintf("stopped by %s: %s", h.By, h.Reason)
}

// Halts keeps the kill switch.
type Halts interface {
	Halt(ctx context.Context) (Halt, error)
	SetHalt(ctx context.Context, h Halt) error
}
