package agent

import (
	"context"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/keyed"
	"github.com/flynnhost/flynn/host/message"
)

// Queue orders work: that of one place is done one after the other, that of different places side by side. It holds nothing that is
// not in the store.
type Queue struct {
	runner *Runner
	scopes *keyed.Group[Item]
}

// maxPlaces bounds the places with work at a time; turns at work are bounded by budgets.parallel_turns.
const maxScopes = 1 << 16

// NewQueue returns the queue of a runner.
func NewQueue(r *Runner) *Queue { return &Queue{runner: r, scopes: keyed.New(maxScopes, r.Work)} }

// Run works on what is there and what comes until ctx ends.
func (q *Queue) Run(ctx context.Context) error { return q.scopes.Run(ctx) }

// Push puts work into its place.
func (q *Queue) Push(it Item) {
	scope := q.runner.QueueKey(it)
	q.scopes.Push(scope, it)
	q.runner.Arrived(scope)
}

// Alone calls do when nothing else runs in a place.
func (q *Queue) Alone(scope string, do func()) { q.scopes.Push(scope, Item{Alone: do}) }

// Waiting returns what has come into a place since its work began.
func (q *Queue) Waiting(scope string) []Item { return q.scopes.Waiting(scope) }

// Commands carries out what people tell the host itself; *command.Service implements it.
type Commands interface {
	// Take takes the message when it is a command that waits for nothing. It reports whether it has, and whether the message is a command
	// that belongs in the queue of its place.
	Take(key string, row mailbox.InboxRow) (taken, order bool)
}

// Arrivals takes up the messages that the inbox has committed.
type Arrivals struct {
	queue    *Queue
	commands Commands
}

// NewArrivals returns Arrivals that fill a queue.
func NewArrivals(q *Queue, c Commands) *Arrivals { return &Arrivals{q, c} }

// Deliver takes a message that is to be answered, and shows it to those who watch its conversation.
func (a *Arrivals) Deliver(row mailbox.InboxRow) {
	m := row.Message
	a.queue.runner.cfg.Events.Publish(message.Event{Kind: message.Said, Channel: m.Channel, Conversation: m.Conversation.ID, Key: m.EventID, Text: m.Text})
	a.Push(Item{Row: row})
}

// Note takes a message that the next turn of its conversation is to be told of.
func (a *Arrivals) Note(row mailbox.InboxRow) { a.queue.runner.Note(row) }

// Push takes work, such as an earlier process left. A command about the turn that runs in a place does not stand behind it.
func (a *Arrivals) Push(it Item) {
	if it.Turn == nil {
		taken, order := a.commands.Take(it.Key(), it.Row)
		if taken {
			return
		}
		it.Order = order
	}
	a.queue.Push(it)
}
