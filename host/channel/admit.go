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

// Decision is the result of admission for a message.
type Decision string

// Decisions of admission.
const (
	Allowed          Decision = "allowed"
	Blocked          Decision = "blocked"
	Program          Decision = "program"
	NotAClient       Decision = "not_a_client"
	NotAddressed     Decision = "not_addressed"
	NotListed        Decision = "not_listed"
	NotPaired        Decision = "not_paired" // not paired, in a conversation where no code can be sent
	Pairing          Decision = "pairing"    // not paired, and a code may be sent
	SenderRate       Decision = "sender_rate"
	ConversationRate Decision = "conversation_rate"
	UnknownRate      Decision = "unknown_rate"
	SenderSessions   Decision = "sender_sessions"
	NotProved        Decision = "not_proved"
	NotTheirs        Decision = "not_theirs"
)

// Why returns the reason that an inbox row records for a message that is not answered; "" for Allowed.
func (r Decision) Why() string {
	switch r {
	case Allowed:
		return ""
	case Blocked:
		return "sender is in access.blocked"
	case Program:
		return "sender is a bot"
	case NotAClient:
		return "no entry of [clients] lets this API client ask this agent"
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
		return "unknown senders are over access.unknown_rate_per_minute"
	case SenderSessions:
		return "sender has started as many sessions within a day as limits.sender_sessions allows: continue one of them"
	case NotProved:
		return "no channel in use proves who the sender is"
	case NotTheirs:
		return "the conversation belongs to somebody else"
	}
	return string(r)
}

// Refused is the error of a message that is not admitted, on a frontend that tells its sender.
type Refused struct{ Decision }

func (r Refused) Error() string { return "the message is not answered: " + r.Why() }

// Limited reports whether a later message may be admitted.
func (r Refused) Limited() bool {
	return r.Decision == SenderRate || r.Decision == ConversationRate || r.Decision == UnknownRate || r.Decision == SenderSessions
}

// GateConfig configures a Gate.
type GateConfig struct {
	Config *config.Config
	Roles  *route.Roles
	// Sessions bounds the sessions that one sender starts, by conversation scope; nil means no bound.
	Sessions Sessions
	Scopes   *route.Scopes
	Now      func() time.Time
	Events   *event.Bus // receives Judged; may be nil
}

// Sessions counts the sessions that senders have started; *quota.Keeper implements it.
type Sessions interface {
	// Open returns an error if a sender would start one session too many in a scope, and otherwise whether it starts one that counts. A free
	// sender may start any number.
	Open(sender message.SenderKey, scope string, free bool) (opened bool, err error)
	// Opened counts a session that a sender has started at another host.
	Opened(sender message.SenderKey, scope string)
}

// Gate admits messages by [access]. It decides about every message of every frontend and channel, including those of schedules and
// other agents: Inbox.Accept calls Admit before it commits, and Refusal is called again when a message is taken up later, because the
// configuration may have changed by then, or a pairing may be revoked.
//
// It decides by Message.Channel and Message.Sender.ID, which the frontend or channel sets and a sender cannot choose. A sender on
// config.LocalFrontends has the token of this machine and is its owner; API clients on the other config.BuiltinChannels are bound by
// [clients]; every other instance is a channel.
type Gate struct {
	GateConfig
	// The rates of known and other senders are kept apart, so that many strangers cannot displace those of known senders.
	known, others, conversations *rates
	unknown                      *rate.Limiter
	told                         tally // for other hosts
}

// NewGate returns a gate.
func NewGate(cfg GateConfig) *Gate {
	a := cfg.Config.Access
	return &Gate{
		GateConfig: cfg, known: newRates(a.RatePerMinute), others: newRates(a.RatePerMinute),
		conversations: newRates(a.ConversationRatePerMinute), unknown: perMinute(a.UnknownRatePerMinute),
	}
}

// Admit decides whether a message is answered, and counts it against the rates.
func (g *Gate) Admit(m message.Message) Admission {
	r := g.judge(m)
	if r == Allowed || r == Pairing {
		r = g.count(m, r)
	}
	if r == Allowed && g.Sessions != nil {
		opened, err := g.Sessions.Open(m.SenderKey(), g.Scopes.Scope(m), route.Local(m.Channel))
		if err != nil {
			r = SenderSessions
		} else if opened {
			g.told.add(sessionOf(m.SenderKey(), g.Scopes.Scope(m)))
		}
	}
	g.Events.Publish(Judged{m.Channel, r})
	return Admission{Allowed: r == Allowed, Decision: r, Why: r.Why()}
}

// Judge decides whether a message is answered, apart from rates and sessions. It does not count the message.
func (g *Gate) Judge(m message.Message) (decision, why string) {
	r := g.judge(m)
	return string(r), r.Why()
}

// Refusal returns why a message is not answered, apart from rates, or "".
func (g *Gate) Refusal(m message.Message) string { return g.judge(m).Why() }

func (g *Gate) judge(m message.Message) Decision {
	if route.Local(m.Channel) {
		return Allowed
	}
	private, access := m.Conversation.Kind == message.DM, g.Config.AccessOn(m.Channel)
	switch {
	case g.Roles.Blocked(m.Channel, m.SenderKey()):
		return Blocked
	case m.Channel == message.ConsoleChannel:
		return g.signedIn(m)
	case m.Channel == message.ScheduleChannel:
		if g.Roles.Of(m.Channel, m.SenderKey()) == route.Guest {
			return NotListed
		}
		return Allowed
	case route.Frontend(m.Channel) != route.FrontendChannel:
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

// signedIn decides about a person at the console as his own channel does about a private chat.
func (g *Gate) signedIn(m message.Message) Decision {
	sender := m.SenderKey()
	own := sender.Channel()
	switch owner, ok := message.ConsoleOwner(m.Conversation.ID); {
	case !ok || owner != sender:
		return NotTheirs
	case !g.Config.Channels[own].Enabled || !g.Roles.Proof(own, sender).Counts():
		return NotProved
	case g.Config.AccessOn(own).Mode == config.AccessOpen || g.Roles.Known(own, sender):
		return Allowed
	}
	return NotListed
}

// count counts a message against the rates, and returns the one that it exceeds, or r.
func (g *Gate) count(m message.Message, r Decision) Decision {
	if route.Local(m.Channel) || m.Act == message.Delegated { // the answer to a message that was counted
		return r
	}
	now, known := g.Now(), g.Roles.Known(m.Channel, m.SenderKey())
	senders := g.known
	if !known {
		senders = g.others
	}
	switch {
	case !senders.allow(now, string(m.SenderKey())):
		return SenderRate
	case !known && !g.unknown.AllowN(now, 1):
		return UnknownRate
	case !g.conversations.allow(now, string(m.ConversationKey())):
		return ConversationRate
	}
	if known {
		g.told.add(ofKnown + string(m.SenderKey()))
	} else {
		g.told.add(ofOther + string(m.SenderKey()))
	}
	g.told.add(ofConversation + string(m.ConversationKey()))
	return r
}

// rates has a rate limiter for each key.
type rates struct {
	perMinute int

	mu    sync.Mutex
	byKey map[string]*rate.Limiter
}

// maxRates bounds the remembered limiters; beyond it all are dropped.
const maxRates = 10_000

func newRates(n int) *rates { return &rates{perMinute: n, byKey: map[string]*rate.Limiter{}} }

// perMinute allows n per minute, in bursts of up to n.
func perMinute(n int) *rate.Limiter { return rate.NewLimiter(rate.Limit(float64(n)/60), max(1, n)) }

func (r *rates) allow(now time.Time, key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of(key).AllowN(now, 1)
}

// take counts messages that another host has admitted.
func (r *rates) take(now time.Time, key string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	take(now, r.of(key), n)
}

// of returns the limiter of a key; r.mu is held.
func (r *rates) of(key string) *rate.Limiter {
	l, ok := r.byKey[key]
	if !ok {
		if len(r.byKey) >= maxRates {
			clear(r.byKey)
		}
		l = perMinute(r.perMinute)
		r.byKey[key] = l
	}
	return l
}
