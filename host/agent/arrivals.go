package agent

import (
	"context"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/keyed"
	"github.com/flynnhost/flynn/host/store"
)

// Queue runs the work of one conversation scope in order, and that of different scopes in parallel. Everything in it is in the store as
// well.
type Queue struct {
	runner *Runner
	scopes *keyed.Group[Item]
}

// maxScopes bounds the scopes with queued work. The turns that run at a time are bounded by budgets.parallel_turns.
const maxScopes = 1 << 16

// NewQueue returns the queue of a runner.
func NewQueue(r *Runner) *Queue { return &Queue{runner: r, scopes: keyed.New(maxScopes, r.Work)} }

// Run works until ctx ends.
func (q *Queue) Run(ctx context.Context) error { return q.scopes.Run(ctx) }

// Push adds an item to the queue of its scope.
func (q *Queue) Push(it Item) {
	scope := q.runner.QueueKey(it)
	q.scopes.Push(scope, it)
	q.runner.Arrived(scope)
}

// Alone calls do when nothing else runs in the scope.
func (q *Queue) Alone(scope string, do func()) { q.scopes.Push(scope, Item{Alone: do}) }

// Queued returns the number of items that wait, in all scopes.
func (q *Queue) Queued() int { return q.scopes.Queued() }

// Waiting returns the items that were queued in a scope since its work began.
func (q *Queue) Waiting(scope string) []Item { return q.scopes.Waiting(scope) }

// Commands carries out chat commands; *command.Service implements it.
type Commands interface {
	// Take takes a message if it is a command that need not be queued. order reports whether the message is a command that must be
	// queued in its scope.
	Take(key string, row mailbox.InboxRow) (taken, order bool)
}

// Arrivals passes committed messages on: to the commands, or to the queue.
type Arrivals struct {
	queue    *Queue
	commands Commands
}

// NewArrivals returns Arrivals that fill the queue q.
func NewArrivals(q *Queue, c Commands) *Arrivals { return &Arrivals{q, c} }

// Deliver takes a message that needs an answer and shows it to the watchers of its conversation.
func (a *Arrivals) Deliver(row mailbox.InboxRow) {
	a.queue.runner.said(row.Message)
	a.Push(Item{Row: row})
}

// Again takes a message that needs an answer and was committed before. If another host has committed it, and this one has yet to hear of it, it must
// come before the messages that follow.
func (a *Arrivals) Again(row mailbox.InboxRow) {
	if a.queue.runner.holdings.lacks(store.ConversationOwner(row.Message.ConversationKey()), row.ID) {
		a.Push(Item{Row: row})
	}
}

// Note takes a message that is mentioned to the next turn of its conversation.
func (a *Arrivals) Note(row mailbox.InboxRow) { a.queue.runner.Note(row) }

// Push takes work, for example work that an earlier process left. A command about the running turn is carried out at once instead of
// being queued behind it.
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
