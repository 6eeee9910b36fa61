package agent

import (
	"context"

	"github.com/flynnhost/flynn/host/internal/keyed"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Commands carries out what people tell the host itself; *command.Desk implements it.
type Commands interface {
	// Take takes the message when it is a command that waits for nothing. It reports whether it has, and whether the message is a command
	// that belongs in the queue of its place.
	Take(key string, row store.InboxRow) (taken, order bool)
}

// Arrivals are the queues of all places: the work of one place is done in its order, that of different places side by side. They hold
// nothing that is not in the store.
type Arrivals struct {
	runner   *Runner
	commands Commands
	queues   *keyed.Group[Item]
}

// maxPlaces bounds the places with work at a time; turns at work are bounded by budgets.parallel_turns.
const maxPlaces = 1 << 16

// NewArrivals returns the queues of a runner.
func NewArrivals(r *Runner, c Commands) *Arrivals {
	return &Arrivals{runner: r, commands: c, queues: keyed.New(maxPlaces, r.Work)}
}

// Run works on what is there and what comes until ctx ends.
func (a *Arrivals) Run(ctx context.Context) error { return a.queues.Run(ctx) }

// Deliver takes a message that was committed, and shows it to those who watch its conversation.
func (a *Arrivals) Deliver(row store.InboxRow) {
	m := row.Message
	a.runner.cfg.Events.Publish(message.Event{Kind: message.Said, Channel: m.Channel, Conversation: m.Conversation.ID, Key: m.EventID, Text: m.Text})
	a.Push(Item{Row: row})
}

// Note takes a message that is not answered by itself.
func (a *Arrivals) Note(row store.InboxRow) { a.runner.Note(row) }

// Push puts work into the queue of its place. A command about the turn that runs there does not stand behind it.
func (a *Arrivals) Push(it Item) {
	if it.Turn == nil {
		taken, order := a.commands.Take(it.Key(), it.Row)
		if taken {
			return
		}
		it.Order = order
	}
	place := a.runner.Lane(it)
	a.queues.Push(place, it)
	a.runner.Arrived(place)
}

// Alone runs do in a place when nothing else runs there.
func (a *Arrivals) Alone(place string, do func()) { a.queues.Push(place, Item{Alone: do}) }

// Waiting returns what has come into the queue of a place since its work began.
func (a *Arrivals) Waiting(place string) []Item { return a.queues.Waiting(place) }
