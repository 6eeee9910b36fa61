package inforce

import (
	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/assemble"
	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/message"
)

// Session describes a conversation scope as the sender of a message sees it.
func (g *Generation) Session(now agent.Summary, m message.Message) command.Session {
	s := command.Session{
		Scope: now.Scope, Running: now.Running, Queued: now.Queued, Mode: now.Mode, Agent: now.Agent, Tier: now.Tier, Turns: now.Turns,
		Began: now.Began, Fixed: g.Table.Fixed(m), Agents: g.Table.Choices(g.Roles.Of(m.Channel, m.SenderKey())),
	}
	if model, ok := g.Config.Models[s.Tier]; ok {
		s.Model = model.Title()
	}
	if a, ok := g.Config.Agents[s.Agent]; ok {
		s.Tiers, s.OwnModel = assemble.Tiers(a), a.Kind == "cli"
	}
	return s
}
