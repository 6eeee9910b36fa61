package host

import (
	"context"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/code"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// turns is the host as its runner of turns sees it. It passes on to parts that need the runner, and are therefore made after it.
type turns struct{ *Host }

var (
	_ agent.Generations = turns{}
	_ agent.Queue       = turns{}
	_ agent.Orders      = turns{}
	_ agent.Inbox       = turns{}
	_ agent.Notices     = turns{}
	_ agent.Attachments = turns{}
	_ agent.Views       = turns{}
)

// InForce implements agent.Generations.
func (h turns) InForce() (*agent.Generation, agent.Policies) { return h.inForce() }

// Place implements agent.Generations.
func (h turns) Place(m message.Message) string { return h.place(m) }

// Push implements agent.Queue.
func (h turns) Push(it agent.Item) { h.queue(it) }

// Waiting implements agent.Queue.
func (h turns) Waiting(place string) []agent.Item { return h.lanes.Waiting(place) }

// Order implements agent.Orders.
func (h turns) Order(ctx context.Context, place string, row store.InboxRow) {
	h.orders.Order(ctx, place, row)
}

// Accept implements agent.Inbox.
func (h turns) Accept(ctx context.Context, m message.Message) error { return h.inbox.Accept(ctx, m) }

// Asked implements agent.Notices.
func (h turns) Asked(ctx context.Context, t store.Turn, replyTo string, a store.Approval) {
	h.asked(ctx, t, replyTo, a)
}

// Behind implements agent.Notices.
func (h turns) Behind(t store.Turn, m message.Message, a store.Approval) { h.behind(t, m, a) }

// Take implements agent.Attachments.
func (h turns) Take(ctx context.Context, session string, m message.Message) []agent.File {
	return h.takeFiles(ctx, session, m)
}

// Image implements agent.Attachments.
func (h turns) Image(ctx context.Context, digest string) ([]byte, error) {
	return h.openImage(ctx, digest)
}

// Show implements agent.Views.
func (h turns) Show(r message.Reply) agent.View { return h.show(r) }

// watchTurns shows the events of turns to the web page, the metrics and the collector of spans.
func (h *Host) watchTurns() {
	event.On(&h.events, h.broker.Publish)
	event.On(&h.events, func(e agent.TurnEnded) {
		h.metrics.turn(e.Agent, e.State, e.Took)
		if !e.WithParent && !e.Released {
			h.telemetry.Offer(e.Turn)
		}
	})
	event.On(&h.events, func(e agent.BudgetExceeded) { h.metrics.budgetFull(e.Level) })
	event.On(&h.events, func(v code.Violated) { h.metrics.violation(v.Agent, string(v.Kind)) })
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
