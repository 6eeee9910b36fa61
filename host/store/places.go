package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// SessionKey names a session: "place:agent" for the first of an agent in a place, "place:agent#2" for the second. What begins a
// new one begins a new epoch of the place.
func SessionKey(place, agent string, epoch int) string {
	if epoch < 2 {
		return place + ":" + agent
	}
	return place + ":" + agent + "#" + strconv.Itoa(epoch)
}

// SessionParts takes a session's key apart. Names of agents have neither ':' nor '#', so the end is told apart from whatever a
// platform calls a conversation.
func SessionParts(key string) (place, agent string, epoch int) {
	i := strings.LastIndexByte(key, ':')
	place, agent = key[:max(i, 0)], key[i+1:]
	agent, number, found := strings.Cut(agent, "#")
	if !found {
		return place, agent, 1
	}
	epoch, err := strconv.Atoi(number)
	if err != nil || epoch < 2 {
		epoch = 1
	}
	return place, agent, epoch
}

// SessionHome is the key of the first session of the same agent in the same place. Workspaces and sandboxes are called by it: they
// stay when a new session begins.
func SessionHome(key string) string {
	place, agent, _ := SessionParts(key)
	return SessionKey(place, agent, 1)
}

// Place is where sessions are: a person's private chat, a group, a thread, or several private chats that an owner has linked. It
// has one session for each agent that answers there.
type Place struct {
	Key string
	// Epoch counts the beginnings, from 1; Began is when the last one was, zero for the first, and Why what it began by.
	Epoch int
	Began time.Time
	Why   string
	// Agent and Tier are chosen by people for all that comes; empty is what the configuration says.
	Agent, Tier string
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
	Place *Place // nil changes nothing there
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
type Places interface {
	// Place returns what is kept of a place; one of which nothing is kept is in its first epoch.
	Place(ctx context.Context, key string) (Place, error)
	// SetPlace writes a place.
	SetPlace(ctx context.Context, p Place) error
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
