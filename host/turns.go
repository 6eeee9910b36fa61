package host

import (
	"context"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/code"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// turns hands on what turns ask of the parts that are made after their runner.
type turns struct{ *Host }

var (
	_ agent.Inbox  = turns{}
	_ agent.Queue  = turns{}
	_ agent.Orders = turns{}
)

// Accept implements agent.Inbox.
func (h turns) Accept(ctx context.Context, m message.Message) error { return h.inbox.Accept(ctx, m) }

// Push implements agent.Queue.
func (h turns) Push(it agent.Item) { h.arrivals.Push(it) }

// Waiting implements agent.Queue.
func (h turns) Waiting(place string) []agent.Item { return h.arrivals.Waiting(place) }

// Order implements agent.Orders.
func (h turns) Order(ctx context.Context, place string, row store.InboxRow) {
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
