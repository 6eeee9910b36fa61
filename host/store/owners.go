package store

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/message"
)

// ErrFenced is returned for a write of a host that has been replaced, or for a key that another host has taken. Nothing was written. It
// does not match ErrConflict: the row may be in the state that the call needs.
var ErrFenced = errors.New("another host has taken over")

// Settled reports whether a write failed because somebody else has settled the matter: its row is in another state, or another host has
// taken over. Trying again does not help then.
func Settled(err error) bool { return errors.Is(err, ErrConflict) || errors.Is(err, ErrFenced) }

// DefaultHost is the host that owns every key that no host has taken.
const DefaultHost = "home"

// OwnerKey names something for which only one host may write at a time.
type OwnerKey string

// The singletons.
const (
	ScheduleOwner OwnerKey = "schedules" // due runs
	UpkeepOwner   OwnerKey = "upkeep"    // retention
)

// ConversationOwner returns the key of a conversation's turns, of the messages that they answer, and of the approvals that they wait
// for.
func ConversationOwner(k message.ConversationKey) OwnerKey {
	return OwnerKey("conversation " + string(k))
}

// ChannelOwner returns the key of the deliveries over a channel instance.
func ChannelOwner(instance string) OwnerKey { return OwnerKey("channel " + instance) }

// Owner is the host that may write for a key.
type Owner struct {
	Host        string
	Incarnation string // of the host, new at each start; empty if the host has never been started
	// Epoch grows whenever the key moves to another host, and whenever its host is started.
	Epoch int64
}

// Owners records which host may write for which key. An opened Store is one incarnation of a host: opening it fences out the previous
// one, and every commit checks that the incarnation is current and that the host owns the key. Data without an OwnerKey may be written
// by every host that is not fenced out.
type Owners interface {
	// Owner returns the owner of a key.
	Owner(ctx context.Context, key OwnerKey) (Owner, error)
	// Take makes this host the owner of a key. A host that had the key before and lost it must first end its work for it, because its
	// own earlier writes would be accepted again.
	Take(ctx context.Context, key OwnerKey) (Owner, error)
}
