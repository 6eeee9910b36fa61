package elevate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Gates decide by one configuration who may begin elevated mode and which agents it is for.
type Gates struct {
	Config *config.Config
	Roles  *route.Roles
}

// owner reports whether a sender is an owner in senders of [elevated].
func (g Gates) owner(channel string, sender message.SenderKey) bool {
	return g.Roles.Of(channel, sender) == route.Owner && slices.Contains(g.Config.Elevated.Senders, string(sender))
}

// refuses returns a sentence for the sender of a message about the closed gate, or "".
func (g Gates) refuses(m message.Message, state string, span time.Duration, now time.Time) string {
	c := g.Config.Elevated
	anyAgent := slices.ContainsFunc(slices.Collect(maps.Values(g.Config.Agents)), func(a config.Agent) bool { return a.Elevated })
	switch {
	case !c.Enabled:
		return "Elevated mode is off: [elevated] enabled = true opens it."
	case !g.owner(m.Channel, m.SenderKey()):
		return "You may not begin elevated mode: [elevated] senders names the owners who may."
	case !anyAgent:
		return "No agent may leave its sandbox: write elevated = true for one."
	case state == On && !c.AllowOn:
		return "Only /elevated ask is allowed here: [elevated] allow_on = true allows the other."
	case !m.ReceivedAt.IsZero() && now.Sub(m.ReceivedAt) >= span:
		return "The time that you asked for is over already. Write it again."
	case span > time.Duration(c.MaxTime):
		return fmt.Sprintf("That is too long: [elevated] max_time is %s.", time.Duration(c.MaxTime))
	}
	return ""
}

// usualSpan is how long elevated mode lasts if the sender names no time, within the bound of the configuration.
const usualSpan = 15 * time.Minute

func spanOf(asked, most time.Duration) time.Duration {
	if asked == 0 {
		return min(usualSpan, most)
	}
	return asked
}

// Begin begins elevated mode in the conversation of a message, for the calls of its sender, or returns a sentence that refuses it. A span
// of 0 is the usual one. The gates are checked again at each call.
func (m *Mode) Begin(ctx context.Context, said message.Message, state string, span time.Duration) (e consent.Elevation, refused string, err error) {
	g := m.config.Gates()
	span = spanOf(span, time.Duration(g.Config.Elevated.MaxTime))
	if why := g.refuses(said, state, span, m.config.Now()); why != "" {
		return consent.Elevation{}, why, nil
	}
	e, err = m.begin(ctx, said.ConversationKey(), said.SenderKey(), state, said.ReceivedAt, span)
	return e, "", err
}

// lookTimeout bounds the reading of the store for a call. After it the call stays in its sandbox.
const lookTimeout = 5 * time.Second

// Elevation returns the facts of elevated mode for a call of an agent in a turn. It uses the gates of the configuration in force, not those
// of the start of the turn: closing one ends elevated mode at once.
func (m *Mode) Elevation(t turnlog.Turn, agent string) tool.Elevation {
	g := m.config.Gates()
	if !g.Config.Elevated.Enabled {
		return tool.Elevation{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	e, ok, err := m.Of(ctx, t.ConversationKey())
	if err != nil {
		m.config.Log.Error("cannot look up elevated mode; the call stays in its sandbox", "turn", t.ID, "error", err)
	}
	if err != nil || !ok {
		return tool.Elevation{}
	}
	return tool.Elevation{
		Enabled: true, Sender: g.owner(t.Channel, t.Sender), Agent: g.Config.Agents[agent].Elevated, AllowOn: g.Config.Elevated.AllowOn,
		State: e.State, By: e.Sender,
	}
}

// Check finds senders of [elevated] who are not owners: their calls would never be elevated.
func Check(c *config.Config) config.Errors {
	var errs config.Errors
	roles := route.NewRoles(c.Access, route.AllProved) // a channel that does not prove ids is a warning, not an error
	for i, sender := range c.Elevated.Senders {
		if k := message.SenderKey(sender); roles.Of(k.Channel(), k) == route.Owner {
			continue
		}
		key := []string{"elevated", "senders"}
		errs = append(errs, config.Error{
			File: c.Path, Line: c.Line(key...), Key: fmt.Sprintf("%s[%d]", config.KeyString(key...), i),
			Problem: fmt.Sprintf("%q is not an owner", sender), Hint: "add it to owners under [access], or take it away here",
		})
	}
	return errs
}
