package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/elevate"
)

// elevationTimeout bounds a look at what holds; one that takes longer finds that nothing does.
const elevationTimeout = 5 * time.Second

// elevation says what holds of elevated mode for a call. The gates are those of the configuration in force, not of the one that
// the turn began with: closing one ends it at once.
func (h *Host) elevation(t store.Turn, agent string) tool.Elevation {
	g := h.current.Load()
	c := g.config
	if !c.Elevated.Enabled {
		return tool.Elevation{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), elevationTimeout)
	defer cancel()
	e, ok, err := h.elevated.Of(ctx, t.ConversationKey())
	if err != nil {
		h.log.Error("cannot look up elevated mode; the call stays in its sandbox", "turn", t.ID, "error", err)
	}
	if err != nil || !ok {
		return tool.Elevation{}
	}
	return tool.Elevation{
		Enabled: true, Sender: g.Roles.Of(t.Channel, t.Sender) == route.Owner && slices.Contains(c.Elevated.Senders, t.Sender),
		Agent: c.Agents[agent].Elevated, AllowOn: c.Elevated.AllowOn, State: e.State, By: e.Sender,
	}
}

// recordElevated writes down that a call leaves the sandbox.
func (h *Host) recordElevated(ctx context.Context, s tool.Subject, v tool.Verdict) error {
	return h.elevated.Used(ctx, elevate.Use{
		Conversation: s.Message.ConversationKey(), Sender: s.Message.SenderKey(), Session: s.Session, Agent: s.Agent, Tool: v.Tool(), Turn: s.Turn,
		Detail: string(v.Args),
	})
}

// elevator begins and ends elevated mode for who writes a command.
type elevator struct{ h *Host }

var _ command.Elevator = elevator{}

// usualElevation is how long elevated mode holds when nothing else is said, as far as the configuration lets it.
const usualElevation = 15 * time.Minute

func elevationSpan(asked, most time.Duration) time.Duration {
	if asked == 0 {
		return min(usualElevation, most)
	}
	return asked
}

// Begin implements command.Elevator.
func (e elevator) Begin(ctx context.Context, m message.Message, state string, span time.Duration) (store.Elevation, string, error) {
	g := e.h.current.Load()
	span = elevationSpan(span, time.Duration(g.config.Elevated.MaxTime))
	if why := mayElevate(g, m, state, span); why != "" {
		return store.Elevation{}, why, nil
	}
	began, err := e.h.elevated.Begin(ctx, m.ConversationKey(), m.SenderKey(), state, m.ReceivedAt, span)
	return began, "", err
}

// mayElevate says which gate is closed for a person, or "". The gates are looked at again at each call.
func mayElevate(g *generation, m message.Message, state string, span time.Duration) string {
	c := g.config.Elevated
	anyAgent := slices.ContainsFunc(slices.Collect(maps.Values(g.config.Agents)), func(a config.Agent) bool { return a.Elevated })
	switch {
	case !c.Enabled:
		return "Elevated mode is off: [elevated] enabled = true opens it."
	case g.Roles.Of(m.Channel, m.SenderKey()) != route.Owner || !slices.Contains(c.Senders, m.SenderKey()):
		return "You may not begin elevated mode: [elevated] senders names the owners who may."
	case !anyAgent:
		return "No agent may leave its sandbox: write elevated = true for one."
	case state == elevate.On && !c.AllowOn:
		return "Only /elevated ask is allowed here: [elevated] allow_on = true allows the other."
	case !m.ReceivedAt.IsZero() && time.Since(m.ReceivedAt) >= span:
		return "The time that you asked for is over already. Write it again."
	case span > time.Duration(c.MaxTime):
		return fmt.Sprintf("That is too long: [elevated] max_time is %s.", time.Duration(c.MaxTime))
	}
	return ""
}

// End implements command.Elevator.
func (e elevator) End(ctx context.Context, conversation, by, why string) (bool, error) {
	return e.h.elevated.End(ctx, conversation, by, why)
}

// Of implements command.Elevator.
func (e elevator) Of(ctx context.Context, conversation string) (store.Elevation, bool, error) {
	return e.h.elevated.Of(ctx, conversation)
}

// elevations are the banners of the web page.
func (b backend) elevations(ctx context.Context) []gateway.ElevationStatus {
	list, err := b.h.elevated.All(ctx)
	if err != nil {
		b.h.log.Warn("list elevated mode", "error", err)
	}
	out := []gateway.ElevationStatus{}
	for _, e := range list {
		out = append(out, gateway.ElevationStatus{Conversation: e.Conversation, State: e.State, Sender: e.Sender, Until: e.Until})
	}
	return out
}

// checkElevated refuses senders of [elevated] who are no owners: they would be told that they may, and then not.
func checkElevated(c *config.Config) config.Errors {
	var errs config.Errors
	roles := route.NewRoles(c.Access, route.AllProved) // a channel that does not prove ids is a warning, not an error
	for i, sender := range c.Elevated.Senders {
		if k, _ := message.ParseSender(sender); roles.Of(k.Channel, sender) == route.Owner {
			continue
		}
		key := []string{"elevated", "senders"}
		errs = append(errs, config.Error{
			File: c.Path, Line: c.Line(key...), Key: fmt.Sprintf("%s[%d]", config.KeyString(key...), i),
			Problem: fmt.Sprintf("%q is no owner", sender), Hint: "add it to owners under [access], or take it away here",
		})
	}
	return errs
}
