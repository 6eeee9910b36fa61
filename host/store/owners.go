package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// ErrFenced is returned for a write of a host that has been replaced, or for a key that another host has taken. Nothing was written. It
// does not match ErrConflict: the row may be in the state that the call needs.
var ErrFenced = errors.New("another host has taken over")

// ErrFailedOver is ErrFenced for a host whose database has failed over to a server that may lack commits. The host has to forget what it has in
// memory, and start again.
var ErrFailedOver = fmt.Errorf("%w, a server of the database which may lack commits", ErrFenced)

// ErrOwned is returned for a key that another host owns, which is alive.
var ErrOwned = errors.New("another host owns it")

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
	MemoryOwner   OwnerKey = "memory"    // facts taken from turns
)

// ConversationOwner returns the key of a conversation's turns, of the messages that they answer, and of the approvals that they wait
// for.
func ConversationOwner(k message.ConversationKey) OwnerKey {
	return OwnerKey(conversationPrefix + string(k))
}

// ChannelOwner returns the key of the deliveries over a channel instance.
func ChannelOwner(instance string) OwnerKey { return OwnerKey(channelPrefix + instance) }

const (
	channelPrefix      = "channel "
	conversationPrefix = "conversation "
)

// Channel returns the channel instance of a key that ChannelOwner returned.
func (k OwnerKey) Channel() (instance string, is bool) {
	return strings.CutPrefix(string(k), channelPrefix)
}

// Conversation returns the conversation of a key that ConversationOwner returned.
func (k OwnerKey) Conversation() (conversation message.ConversationKey, is bool) {
	text, is := strings.CutPrefix(string(k), conversationPrefix)
	return message.ConversationKey(text), is
}

// Owner is the host that may write for a key.
type Owner struct {
	Host        string
	Incarnation string // of the host, new at each start; empty if the host has never been started
	// Epoch grows whenever the key moves to another host, and whenever its host is started.
	Epoch int64
	// Rest is how long a previous owner may still run what goes on without asking, such as the receiving half of a channel. Only Claim and
	// Take set it.
	Rest time.Duration
}

// WithEpoch returns a context whose writes are made only while this host owns a key in the given epoch; otherwise they return ErrFenced.
// So work that was begun before the key was lost writes nothing, even if the host has claimed the key again since.
func WithEpoch(ctx context.Context, key OwnerKey, epoch int64) context.Context {
	return context.WithValue(ctx, epochKey{}, keyEpoch{key, epoch})
}

// EpochIn returns what WithEpoch has put into a context.
func EpochIn(ctx context.Context) (key OwnerKey, epoch int64, is bool) {
	e, is := ctx.Value(epochKey{}).(keyEpoch)
	return e.key, e.epoch, is
}

type epochKey struct{}

type keyEpoch struct {
	key   OwnerKey
	epoch int64
}

// Lease is what a host says when it renews its lease.
type Lease struct {
	// Term is how long the host counts as alive from now on, by the clock of the store.
	Term time.Duration
	// Reach is how long after sending this the host begins side effects without another renewal. It never gets shorter while the host runs.
	Reach time.Duration
	// Address, Version and Digests say where other hosts reach it, and what it runs.
	Address, Version, Digests string
	// Shared is the digest of its configuration, as far as it concerns all hosts, and Revision the one that it has taken.
	Shared   string
	Revision int64
	// Peer is where the host listens for others, and Fingerprint that of the key with which this incarnation of it proves itself to them; both
	// are empty if it does not listen.
	Peer, Fingerprint string
	// Heard are the signals that the host has acted on. They are not sent again.
	Heard []int64
	// Counts are told to the other hosts that are alive, as SignalCounted.
	Counts []Count
}

// Count is how often a host has admitted something that is bounded for all hosts together, since it told that last.
type Count struct {
	Of string // what, in the words of the hosts
	N  int64
}

// Renewal is what a host learns when it renews its lease.
type Renewal struct {
	// Wait is how long the host must not act yet, because a previous incarnation of it that was not stopped may still act.
	Wait time.Duration
	// Watched is true if other hosts notice that the connection of this one has ended, and then count it as dead when Reach is over, even if
	// its lease lasts. So it must keep to its Reach.
	Watched bool
	// Alive are the ids of the hosts that are alive, sorted, with this one.
	Alive []string
	// Idle says why the host gets no new keys; it must release those that it has as its work for them ends.
	Idle Idle
	// Control grows with each change that all hosts must learn of: the kill switch, pairings, sign-ins, elevated mode,
	// answers to requests for approval, parts, revisions of the configuration, and files that a host wants.
	Control int64
	// Signals are those that have not been heard, oldest first.
	Signals []Signal
}

// SignalKind says what a host is told.
type SignalKind string

// The kinds of signals.
const (
	SignalWork   SignalKind = "work"   // another host has written something that the owner of the key has to take up
	SignalStop   SignalKind = "stop"   // somebody at another host wants what runs for the key to end
	SignalLost   SignalKind = "lost"   // another host has claimed the key
	SignalVacant SignalKind = "vacant" // another host has given up all its keys
	// SignalControl says that Renewal.Control has grown.
	SignalControl SignalKind = "control"
	// SignalCounted is a Count of another host. It waits for the next Renew, and is lost with a host that dies or leaves.
	SignalCounted SignalKind = "counted"
)

// Signal is what another host wants the owner of a key to know. Signals only save time: one that is never read does no harm, because
// a host that claims a key looks for its work.
type Signal struct {
	ID   int64
	Kind SignalKind
	Key  OwnerKey // empty if it is about no key; Count.Of for SignalCounted
	// Epoch is that of the new owner, for SignalLost; Count.N for SignalCounted.
	Epoch int64
}

// Owners records which host may write for which key. An opened Store is one incarnation of a host: opening it fences out the previous
// one, and every commit checks that the incarnation is current and that the host owns the key. Data without an OwnerKey may be written
// by every host that is not fenced out.
//
// A host that shares the store with others renews a lease, and is alive while that lasts. Only the keys of hosts that are not alive can be
// claimed. Leases never make a write valid: commits compare incarnation, owner and epoch, and no time. A host that is killed need not have
// its lease run out: see Renewal.Watched. The whole lease still protects parts that
// go on without asking: see Owner.Rest.
//
// A back end that can lose acknowledged commits, by a failover to a replica that lags, returns ErrFailedOver afterwards to every incarnation
// that was opened before, and gives no keys away for one more term: leases may be among what was lost.
type Owners interface {
	Members
	// Shared reports whether other hosts may have the store open. If not, this host owns everything and need not renew a lease.
	Shared() bool
	// Renew extends the lease of this host.
	Renew(ctx context.Context, l Lease) (Renewal, error)
	// Signaled reports whether there are signals that Renew has not been told as heard, other than counts.
	Signaled(ctx context.Context) (bool, error)
	// Owner returns the owner of a key.
	Owner(ctx context.Context, key OwnerKey) (Owner, error)
	// Claim makes this host the owner of a key unless it is that already, and returns the owner. It returns ErrOwned, and the owner, if
	// that is another host and alive, or if this host gets no keys. AppendInbox claims the message's conversation in the same way, or signals
	// work to its owner; a host that gets no keys signals it to all others.
	Claim(ctx context.Context, key OwnerKey) (Owner, error)
	// Take is like Claim even if the owner is alive. A host that had the key before and lost it must first end its work for it, because
	// its own earlier writes would be accepted again if they are made without WithEpoch.
	Take(ctx context.Context, key OwnerKey) (Owner, error)
	// Release gives up a key that this host owns, so that any host can claim it, and signals its work to the others if this host gets no
	// keys. The host must have ended its work for it.
	Release(ctx context.Context, key OwnerKey) error
	// Stop has the owner of a key, if that is another host, end what runs for it.
	Stop(ctx context.Context, key OwnerKey) error
	// Leave gives up all keys and the lease, and signals that to the other hosts. The host must have ended its work. While a previous
	// incarnation may still act it only shortens the lease to that time.
	Leave(ctx context.Context) error
}
