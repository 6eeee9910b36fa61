package inforce

import (
	"context"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/assemble"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/channel/mailbox"
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

// Scopes gives commands the conversation scopes of a runner, as the configuration in force has them.
type Scopes struct {
	Current *Current
	Runner  *agent.Runner
}

var _ command.Scopes = Scopes{}

// Look implements command.Scopes.
func (s Scopes) Look(ctx context.Context, scope string, m message.Message) (command.Session, error) {
	g := s.Current.Load()
	now, err := s.Runner.Summary(ctx, g.Generation, scope, m)
	return g.Session(now, m), err
}

// Compact implements command.Scopes.
func (s Scopes) Compact(ctx context.Context, at turnlog.Scope, row mailbox.InboxRow) (c command.Compaction, err error) {
	c.Text, c.Summary, c.Applied, err = s.Runner.Compact(ctx, s.Current.Load().Generation, at, row.Message, mailbox.CommandTurn(row.ID))
	return c, err
}
