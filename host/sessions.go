package host

import (
	"context"
	"strings"

	"github.com/flynnhost/flynn/host/agent/assemble"
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
		s.Tiers, s.OwnModel = assemble.Tiers(a), a.Kind == "cli"
	}
	return s, nil
}

// modelName is a model as people are told of it; a provider with one model alone needs no name for it.
func modelName(m config.Model) string { return strings.TrimSuffix(m.Provider+"/"+m.Model, "/") }
