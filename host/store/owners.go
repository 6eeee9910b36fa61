package store

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/message"
)

// ErrFenced is returned for a write of a host that another one has replaced, or for something that another host has taken. Nothing was
// written. It is no ErrConflict: the row may be in the state that the call needs.
var ErrFenced = errors.New("another host has taken over")

// HomeHost is the host that owns what no host has taken.
const HomeHost = "home"

// OwnerKey names something for which one host writes at a time.
type OwnerKey string

// The singletons.
const (
	ScheduleOwner OwnerKey = "schedules" // what is due
	UpkeepOwner   OwnerKey = "upkeep"    // what retention deletes
)

// ConversationOwner is the key of the turns of a conversation, the messages that they answer, and the approvals that they wait for.
func ConversationOwner(k message.ConversationKey) OwnerKey {
	return OwnerKey("conversation " + string(k))
}

// ChannelOwner is the key of the deliveries over a channel instance.
func ChannelOwner(instance string) OwnerKey { return OwnerKey("channel " + instance) }

// Owner is the host that may write for a key.
type Owner struct {
	Host        string
	Incarnation string // of the host, another one at each start; empty when the host has never been started
	// Epoch grows whenever the key goes to another host, and whenever its host is started.
	Epoch int64
}

// Owners hold which host may write for what. An opened Store is one incarnation of a host: opening fences the one before it out, and every
// commit checks that the incarnation is still the host's and that the host owns what the commit is for. Anything not named by an OwnerKey
// may be written by each host that is not fenced out.
type Owners interface {
	// Owner returns the owner of a key.
	Owner(ctx context.Context, key OwnerKey) (Owner, error)
	// Take makes this host the owner of a key, whoever had it. A host that had the key before and lost it ends what it was doing for it
	// first: its own earlier writes would pass again.
	Take(ctx context.Context, key OwnerKey) (Owner, error)
}
