package channel

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
)

// Gate admits messages by [access]. The doors of this machine are always open.
type Gate struct {
	open, all bool
	roles     *route.Roles
	limit     rate.Limit
	burst     int
	now       func() time.Time

	mu    sync.Mutex
	rates map[string]*rate.Limiter
}

// NewGate makes a gate of a configuration's [access].
func NewGate(a config.Access, roles *route.Roles, now func() time.Time) *Gate {
	return &Gate{
		open: a.Mode == "open", all: a.Groups == "all", roles: roles, now: now, rates: map[string]*rate.Limiter{},
		limit: rate.Limit(float64(a.RatePerMinute) / 60), burst: max(1, a.RatePerMinute),
	}
}

// Admit decides whether a message is to be answered, and counts it against its sender's rate.
func (g *Gate) Admit(m message.Message) Admission {
	if why := g.Refusal(m); why != "" {
		return Admission{Why: why}
	}
	if !route.Local(m.Channel) && !g.allow(m.SenderKey()) {
		return Admission{Why: "sender is over access.rate_per_minute"}
	}
	return Admission{Allowed: true}
}

// Refusal tells why a message is not to be answered however seldom its sender writes, or "".
func (g *Gate) Refusal(m message.Message) string {
	switch {
	case route.Local(m.Channel):
		return ""
	case m.Sender.Bot:
		return "sender is a program"
	case m.Conversation.Kind != message.DM && !m.Addressed && !g.all:
		return "not addressed"
	case !g.open && g.roles.Of(m.Channel, m.SenderKey()) == route.Guest:
		return "sender is not in access.owners or access.members"
	}
	return ""
}

// maxRates bounds the senders whose rate is remembered; past it the memory starts anew.
const maxRates = 10_000

func (g *Gate) allow(sender string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.rates[sender]
	if !ok {
		if len(g.rates) >= maxRates {
			clear(g.rates)
		}
		l = rate.NewLimiter(g.limit, g.burst)
		g.rates[sender] = l
	}
	return l.AllowN(g.now(), 1)
}
