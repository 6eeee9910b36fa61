package host

import (
	"context"
	"strings"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
)

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
