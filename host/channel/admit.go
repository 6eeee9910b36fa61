package channel

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
)

// Ruling is what admission says of a message, in one word.
type Ruling string

// The rulings.
const (
	Allowed          Ruling = "allowed"
	Blocked          Ruling = "blocked"
	Program          Ruling = "program"
	NotAClient       Ruling = "not_a_client"
	NotAddressed     Ruling = "not_addressed"
	NotListed        Ruling = "not_listed"
	NotPaired        Ruling = "not_paired" // what Pairing becomes where nobody can be given a code
	Pairing          Ruling = "pairing"    // the sender may be given a code
	SenderRate       Ruling = "sender_rate"
	ConversationRate Ruling = "conversation_rate"
	UnknownRate      Ruling = "unknown_rate"
	SenderSessions   Ruling = "sender_sessions"
)

// Why is what an inbox row says of a message that is not answered; "" for Allowed.
func (r Ruling) Why() string {
	switch r {
	case Allowed:
		return ""
	case Blocked:
		return "sender is in access.blocked"
	case Program:
		return "sender is a program"
	case NotAClient:
		return "no entry of [clients] lets this program ask this agent"
	case NotAddressed:
		return "not addressed"
	case NotListed:
		return "sender is not in access.owners or access.members"
	case NotPaired, Pairing:
		return "sender is not paired"
	case SenderRate:
		return "sender is over access.rate_per_minute"
	case ConversationRate:
		return "conversation is over access.conversation_rate_per_minute"
	case UnknownRate:
		return "people who are not known are over access.unknown_rate_per_minute"
	case SenderSessions:
		return "sender has begun as many sessions within a day as limits.sender_sessions allows: go on in one of them"
	}
	return string(r)
}

// GateConfig is what a Gate is made from.
type GateConfig struct {
	Config *config.Config
	Roles  *route.Roles
	// Sessions bounds the sessions that one sender begins, by the places of Scope; nil bounds none.
	Sessions Sessions
	Scope    *route.Scope
	Now      func() time.Time
	Events   *event.Bus // gets Judged; it may be nil
}

// Sessions counts the sessions that senders have begun; *quota.Keeper implements it.
type Sessions interface {
	// Open returns an error where a sender begins one session too many in a place. A free sender may begin any number.
	Open(sender, place string, free bool) error
}

// Gate admits messages by [access]. It is asked about every message of every door, the host's own doors and what schedules and other
// agents send among them: Inbox.Accept asks Admit before it commits, and who takes a message up later asks Refusal, since meanwhile
// the configuration may be another, or a pairing revoked.
//
// It goes by Message.Channel and Message.Sender.ID, which a door fills in and a sender cannot choose. A person who speaks over one of
// config.LocalFrontends holds the token of this machine and is its owner; programs at the others of config.BuiltinChannels are held to
// [clients]; any other instance is held to the rules of a channel.
type Gate struct {
	GateConfig
	// Rates of known people and of others are kept apart, so that no crowd makes the host forget those of the known.
	known, others, conversations *rates
	unknown                      *rate.Limiter
}

// NewGate makes a gate.
func NewGate(cfg GateConfig) *Gate {
	a := cfg.Config.Access
	return &Gate{
		GateConfig: cfg, known: newRates(a.RatePerMinute), others: newRates(a.RatePerMinute),
		conversations: newRates(a.ConversationRatePerMinute), unknown: perMinute(a.UnknownRatePerMinute),
	}
}

// Admit decides whether a message is to be answered, and counts it against the rates.
func (g *Gate) Admit(m message.Message) Admission {
	r := g.judge(m)
	if r == Allowed || r == Pairing {
		r = g.count(m, r)
	}
	if r == Allowed && g.Sessions != nil && g.Sessions.Open(m.SenderKey(), g.Scope.Place(m), route.Local(m.Channel)) != nil {
		r = SenderSessions
	}
	g.Events.Publish(Judged{m.Channel, r})
	return Admission{Allowed: r == Allowed, Ruling: r, Why: r.Why()}
}

// Refusal tells why a message is not to be answered however seldom its sender writes, or "".
func (g *Gate) Refusal(m message.Message) string { return g.judge(m).Why() }

func (g *Gate) judge(m message.Message) Ruling {
	if route.Local(m.Channel) {
		return Allowed
	}
	private, access := m.Conversation.Kind == message.DM, g.Config.AccessOn(m.Channel)
	switch {
	case g.Roles.Blocked(m.Channel, m.SenderKey()):
		return Blocked
	case m.Channel == message.ScheduleDoor:
		if g.Roles.Of(m.Channel, m.SenderKey()) == route.Guest {
			return NotListed
		}
		return Allowed
	case route.Door(m.Channel) != route.DoorChannel:
		if !g.Roles.MayAsk(m) {
			return NotAClient
		}
		return Allowed
	case m.Sender.Bot:
		return Program
	case !private && !m.Addressed && access.Groups != "all":
		return NotAddressed
	case access.Mode == config.AccessOpen || g.Roles.Known(m.Channel, m.SenderKey()):
		return Allowed
	case access.Mode != config.AccessPair:
		return NotListed
	case !private || m.Act != "" || m.Noted:
		return NotPaired
	}
	return Pairing
}

// count takes a message off the rates and tells which of them it is over, if any.
func (g *Gate) count(m message.Message, r Ruling) Ruling {
	if route.Local(m.Channel) || m.Act == message.Delegated { // the answer to a message that was counted
		return r
	}
	now, known := g.Now(), g.Roles.Known(m.Channel, m.SenderKey())
	senders := g.known
	if !known {
		senders = g.others
	}
	switch {
	case !senders.allow(now, m.SenderKey()):
		return SenderRate
	case !known && !g.unknown.AllowN(now, 1):
		return UnknownRate
	case !g.conversations.allow(now, m.ConversationKey()):
		return ConversationRate
	}
	return r
}

// rates is one rate for each of many.
type rates struct {
	perMinute int

	mu    sync.Mutex
	byKey map[string]*rate.Limiter
}

// maxRates bounds whose rates are remembered; past it the memory starts anew.
const maxRates = 10_000

func newRates(n int) *rates { return &rates{perMinute: n, byKey: map[string]*rate.Limiter{}} }

// perMinute allows n in a minute, all at once if need be.
func perMinute(n int) *rate.Limiter { return rate.NewLimiter(rate.Limit(float64(n)/60), max(1, n)) }

func (r *rates) allow(now time.Time, key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.byKey[key]
	if !ok {
		if len(r.byKey) >= maxRates {
			clear(r.byKey)
		}
		l = perMinute(r.perMinute)
		r.byKey[key] = l
	}
	return l.AllowN(now, 1)
}
