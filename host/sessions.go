package host

import (
	"context"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// place is the place of a message in the configuration in force.
func (h *Host) place(m message.Message) string { return h.current.Load().scope.Place(m) }

// admit decides whether a message is to be answered.
func (h *Host) admit(m message.Message) channel.Admission {
	a := h.current.Load().gate.Admit(m)
	if a.Allowed && h.fleet.Quota().Open(m.SenderKey(), h.place(m), route.Local(m.Channel)) != nil {
		return channel.Admission{Ruling: channel.SenderSessions, Why: channel.SenderSessions.Why()}
	}
	return a
}

// refused tells the sender of a message over a channel that he has begun too many sessions, once a day. Nobody else who is not admitted is
// answered.
func (h *Host) refused(row store.InboxRow, r channel.Ruling) {
	m := row.Message
	if r != channel.SenderSessions || route.Door(m.Channel) != route.DoorChannel || m.Act != "" || m.Noted || !h.fleet.Quota().Tell(m.SenderKey()) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	turn := store.CommandTurn(row.ID)
	fresh, err := h.store.AddReplies(ctx, turn, []message.Reply{{
		Key: turn + "/0", Channel: m.Channel, Conversation: m.Conversation, ReplyTo: m.EventID,
		Text: "This is not answered: you have begun as many conversations within a day as this host allows. Go on in one of them.",
	}})
	if err != nil {
		h.log.Error("send a notice of limits.sender_sessions", "error", err)
	}
	for _, r := range fresh {
		h.outbox.Push(turn, r)
	}
}

// queue puts work into its lane. A command about the turn that runs does not stand behind it.
func (h *Host) queue(it agent.Item) {
	if it.Turn == nil {
		if c, ok := command.Parse(it.Row.Message.Text); ok && !c.Queued() {
			h.commands.Push(it.Key(), it.Row)
			return
		} else if ok {
			it.Order = true
		}
	}
	place := h.runner.Lane(it)
	h.lanes.Push(place, it)
	h.runner.Arrived(place)
}

// look tells of a place as the sender of a message is answered there.
func (h *Host) look(ctx context.Context, place string, m message.Message) (command.Session, error) {
	g := h.current.Load()
	now, err := h.runner.Summary(ctx, g.Generation, place, m)
	if err != nil {
		return command.Session{}, err
	}
	s := command.Session{
		Place: now.Place, Running: now.Running, Queued: now.Queued, Mode: now.Mode, Agent: now.Agent, Tier: now.Tier, Turns: now.Turns,
		Began: now.Began, Fixed: g.Table.Fixed(m), Agents: g.Table.Choices(g.Roles.Of(m.Channel, m.SenderKey())),
	}
	if model, ok := g.config.Models[s.Tier]; ok {
		s.Model = modelName(model)
	}
	if a, ok := g.config.Agents[s.Agent]; ok {
		s.Tiers, s.OwnModel = tiersOf(a), a.Kind == "cli"
	}
	return s, nil
}

// modelName is a model as people are told of it; a provider with one model alone needs no name for it.
func modelName(m config.Model) string { return strings.TrimSuffix(m.Provider+"/"+m.Model, "/") }

// tiersOf are the tiers that people may choose for an agent, its own first.
func tiersOf(a config.Agent) []string {
	if a.Kind == "cli" {
		return nil // brings its own model
	}
	tiers := []string{a.ModelTier}
	for _, t := range a.ModelTiers {
		if t != a.ModelTier {
			tiers = append(tiers, t)
		}
	}
	return tiers
}

// windows are the tiers that people may choose for an agent with how much of a conversation each model is shown.
func windows(c *config.Config, a config.Agent) map[string]int {
	windows := map[string]int{}
	for _, tier := range tiersOf(a) {
		if m, ok := c.Models[tier]; ok {
			windows[tier] = agent.Window(m.ContextWindow, m.MaxOutputTokens+m.Reasoning.Tokens())
		}
	}
	return windows
}

// queues are the modes that channels have of their own.
func queues(c *config.Config) map[string]string {
	modes := map[string]string{}
	for name, ch := range c.Channels {
		modes[name] = ch.Queue
	}
	return modes
}
