package host

import (
	"context"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/gateway/preview"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/pool"
)

// workspaces gives access to the workspaces of the fleet, which is created after the media store.
type workspaces struct{ h *Host }

// Visit implements attachments.Workspaces.
func (w workspaces) Visit(session message.WorkspaceKey) (machine.Machine, func(), error) {
	return w.h.fleet.Visit(session)
}

// MediaRoom implements attachments.Workspaces.
func (w workspaces) MediaRoom(sender message.SenderKey) (int64, error) {
	return w.h.fleet.Quota().MediaRoom(sender)
}

// running connects the pairings with the runner, which is created after them.
type running struct{ *Host }

// StopFor implements pairing.Turns.
func (h running) StopFor(sender message.SenderKey) { h.runner.StopFor(sender) }

// turns connects the runner with the parts that are created after it.
type turns struct{ *Host }

// Accept implements agent.Inbox.
func (h turns) Accept(ctx context.Context, m message.Message) error { return h.inbox.Accept(ctx, m) }

// Push implements agent.Backlog.
func (h turns) Push(it agent.Item) { h.queue.Push(it) }

// Waiting implements agent.Backlog.
func (h turns) Waiting(scope string) []agent.Item { return h.queue.Waiting(scope) }

// Order implements agent.Orders.
func (h turns) Order(ctx context.Context, scope string, row mailbox.InboxRow) {
	h.commands.Order(ctx, scope, row)
}

// views shows turns over channels.
type views struct{ *channel.Live }

// Show implements agent.Views.
func (v views) Show(r message.Reply) agent.View {
	if shown := v.Live.Show(r); shown != nil {
		return shown
	}
	return nil
}

// replies is the outbox for turns. It also wakes the scheduler, which waits for answers to its runs.
type replies struct{ *Host }

// Push implements agent.Outbox.
func (h replies) Push(turn string, r message.Reply) {
	h.outbox.Push(turn, r)
	if r.Channel == message.ScheduleChannel {
		h.schedules.Wake()
	}
}

// TakeUp implements agent.Outbox.
func (h replies) TakeUp(ctx context.Context, channel string) error {
	return h.outbox.TakeUp(ctx, channel)
}

// state provides the values of metrics.
type state struct{ h *Host }

func (s state) Generation() uint64        { return s.h.current.Load().Number }
func (s state) Waiting() map[string]int   { return s.h.outbox.Waiting() }
func (s state) Pools() pool.Stats         { return s.h.fleet.PoolStats() }
func (s state) Policies() []policy.Status { return s.h.policies.Status() }
func (s state) Models() []model.Status    { return s.h.current.Load().Models.Status() }
func (s state) Backup() int64             { return s.h.backups.Latest() }

// boxes gives previews the sandboxes of the fleet.
type boxes struct{ *fleet.Fleet }

// Box implements preview.Sandboxes.
func (b boxes) Box(id string) (preview.Box, error) { return b.LiveSession(id) }
