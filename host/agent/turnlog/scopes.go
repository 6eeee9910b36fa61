package turnlog

import (
	"context"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Scope is a conversation scope: a person's private chat, a group, a thread, or several private chats that an owner has linked. It has
// one session for each agent that answers there.
type Scope struct {
	Key string
	// Epoch counts how often the scope began anew, from 1. Began is when the present epoch began, zero for the first, and Why is the
	// reason.
	Epoch int
	Began time.Time
	Why   string
	// Agent and Tier are people's choice for later messages; empty means the configuration's.
	Agent, Tier string
}

// Session returns the key of an agent's present session in the scope.
func (p Scope) Session(agent string) message.SessionKey {
	return message.Session{Scope: p.Key, Agent: agent, Epoch: p.Epoch}.Key()
}

// Reasons why an epoch began.
const (
	BeganAsked = "asked" // somebody asked for it
	BeganIdle  = "idle"  // after a long silence
)

// Settlement carries out a chat command, in one transaction.
type Settlement struct {
	Inbox int64 // the row of the command, which becomes done
	Note  string
	Scope *Scope // nil leaves the scope unchanged
	// Summary is a new summary of one of the scope's sessions, or nil.
	Summary *Summary
	// Deletions are of existing sessions without a running turn.
	Deletions []Deletion
	// Told are rows in state Noted that no turn needs to hear about any more; rows in another state do not change.
	Told    []int64
	Turn    string // turn id of the replies
	Replies []message.Reply
}

// Scopes stores what people chose for conversation scopes, and their epochs.
type Scopes interface {
	// Scope returns the stored state of a scope. A scope without one is in its first epoch.
	Scope(ctx context.Context, key string) (Scope, error)
	// SetScope stores the state of a scope.
	SetScope(ctx context.Context, p Scope) error
	// Settle carries out a command. It returns ErrConflict, and changes nothing, if its message was settled before.
	Settle(ctx context.Context, s Settlement) error
}

// Halt is the state of the kill switch.
type Halt struct {
	On     bool
	Reason string
	By     string
	Since  time.Time
}

// String returns why nothing runs, or "" if the switch is off.
func (h Halt) String() string {
	switch {
	case !h.On:
		return ""
	case h.Reason == "":
		return "stopped by " + h.By
	}
	return fmt.Sprintf("stopped by %s: %s", h.By, h.Reason)
}

// Halts stores the kill switch.
type Halts interface {
	Halt(ctx context.Context) (Halt, error)
	SetHalt(ctx context.Context, h Halt) error
}
