package host

import (
	"context"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/assemble"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/pool"
)

// inForce is the configuration in force, as the areas ask for it.
type inForce struct{ h *Host }

func (r inForce) now() (*config.Config, *route.Roles) {
	g := r.h.current.Load()
	return g.config, g.Roles
}

func (r inForce) config() *config.Config { return r.h.current.Load().config }
func (r inForce) access() config.Access  { return r.config().Access }
func (r inForce) pairRole() string       { return r.config().Access.PairRole }

// streams reports whether answers on a channel are shown while they are made.
func (r inForce) streams(channel string) bool { return r.config().Channels[channel].Stream }

// Admit implements channel.Admitter.
func (r inForce) Admit(m message.Message) channel.Admission { return r.h.current.Load().gate.Admit(m) }

// Refusal implements command.Rules.
func (r inForce) Refusal(m message.Message) string { return r.h.current.Load().gate.Refusal(m) }

// Role implements command.Rules.
func (r inForce) Role(channel string, sender message.SenderKey) string {
	return r.h.current.Load().Roles.Of(channel, sender)
}

// Place implements command.Rules.
func (r inForce) Place(m message.Message) string { return r.h.current.Load().scope.Place(m) }

// Persons implements command.Rules.
func (r inForce) Persons(sender message.SenderKey) []message.SenderKey {
	return r.h.current.Load().scope.Persons(sender)
}

// places are the places of the host as commands see them.
type places struct{ h *Host }

var _ command.Places = places{}

// Look implements command.Places.
func (p places) Look(ctx context.Context, place string, m message.Message) (command.Session, error) {
	return p.h.look(ctx, place, m)
}

// Compact implements command.Places.
func (p places) Compact(ctx context.Context, at turnlog.Place, row mailbox.InboxRow) (command.Compaction, error) {
	return p.h.compact(ctx, at, row)
}

// workspaces are those of the sandboxes, which are made after the media store whose bytes they count.
type workspaces struct{ h *Host }

// Visit implements attachments.Workspaces.
func (w workspaces) Visit(session string) (machine.Machine, func(), error) {
	return w.h.fleet.Visit(session)
}

// MediaRoom implements attachments.Workspaces.
func (w workspaces) MediaRoom(sender message.SenderKey) (int64, error) {
	return w.h.fleet.Quota().MediaRoom(sender)
}

// turns hands on what turns ask of the parts that are made after their runner.
type turns struct{ *Host }

var (
	_ agent.Inbox   = turns{}
	_ agent.Backlog = turns{}
	_ agent.Orders  = turns{}
)

// Accept implements agent.Inbox.
func (h turns) Accept(ctx context.Context, m message.Message) error { return h.inbox.Accept(ctx, m) }

// Push implements agent.Backlog.
func (h turns) Push(it agent.Item) { h.queue.Push(it) }

// Waiting implements agent.Backlog.
func (h turns) Waiting(place string) []agent.Item { return h.queue.Waiting(place) }

// Order implements agent.Orders.
func (h turns) Order(ctx context.Context, place string, row mailbox.InboxRow) {
	h.commands.Order(ctx, place, row)
}

// InForce implements agent.Generations.
func (r inForce) InForce() (*agent.Generation, agent.Policies) { return r.h.inForce() }

var _ agent.Generations = inForce{}

// views shows turns over channels.
type views struct{ *channel.Live }

// Show implements agent.Views.
func (v views) Show(r message.Reply) agent.View {
	if shown := v.Live.Show(r); shown != nil {
		return shown
	}
	return nil
}

// replies is the outbox of turns. The scheduler looks when an answer of its own is ready.
type replies struct{ *Host }

var _ agent.Outbox = replies{}

// Push implements agent.Outbox.
func (h replies) Push(turn string, r message.Reply) {
	h.outbox.Push(turn, r)
	if r.Channel == message.ScheduleDoor {
		h.schedules.Wake()
	}
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
		s.Model = model.Title()
	}
	if a, ok := g.config.Agents[s.Agent]; ok {
		s.Tiers, s.OwnModel = assemble.Tiers(a), a.Kind == "cli"
	}
	return s, nil
}

// maxNotes is the bound of the configuration in force.
func (h *Host) maxNotes() int {
	if g := h.current.Load(); g != nil {
		return g.config.Memory.MaxNotes
	}
	return 0
}

// compact carries out an order to compact the conversation of a message.
func (h *Host) compact(ctx context.Context, at turnlog.Place, row mailbox.InboxRow) (c command.Compaction, err error) {
	gen := h.current.Load().Generation
	c.Text, c.Summary, c.Applied, err = h.runner.Compact(ctx, gen, at, row.Message, mailbox.CommandTurn(row.ID))
	return c, err
}

// state is what metrics are read from.
type state struct{ h *Host }

func (s state) Generation() uint64        { return s.h.current.Load().Number }
func (s state) Waiting() map[string]int   { return s.h.outbox.Waiting() }
func (s state) Pools() pool.Stats         { return s.h.fleet.PoolStats() }
func (s state) Policies() []policy.Status { return s.h.policies.Status() }
func (s state) Models() []model.Status    { return s.h.current.Load().models.Status() }
