package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/agent/children"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Queue modes, for messages that come during a turn.
const (
	QueueCollect   = "collect"   // answered together by the next turn; the default
	QueueFollowup  = "followup"  // each answered by a turn of its own
	QueueInterrupt = "interrupt" // a message of the same sender stops the turn, and both are answered together
)

// queue returns the queue mode for an agent on a channel.
func (g *Generation) queue(a *Agent, channel string) string {
	switch {
	case a != nil && a.Queue != "":
		return a.Queue
	case g.Queues[channel] != "":
		return g.Queues[channel]
	}
	return g.Queue
}

// active is a running turn.
type active struct {
	cancel       context.CancelCauseFunc
	conversation message.ConversationKey // key of the conversation that gets the answer
	origin       message.Message
	rest         []Item // items of the queue that came before those still in it
	interrupts   bool   // a later message may stop it
	turn         turnlog.Turn
	asking       consent.Approval                 // the request that a person is asked about, if any
	told         map[message.ConversationKey]bool // conversations that have been told about it
}

// registry holds the running turns, so that others can stop them.
type registry struct {
	queue    Backlog
	notices  Notices
	children *children.Supervisor

	mu      sync.Mutex
	running map[string]*active // by conversation scope
}

// add registers a running turn.
func (r *registry) add(scope string, a *active) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[scope] = a
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.running, scope)
	}
}

// RunningTurns counts the turns that run, those of background children not among them.
func (r *registry) RunningTurns() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.running)
}

// stopAll ends the running turns for which which returns true.
func (r *registry) stopAll(cause error, which func(*active) bool) (found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.running {
		if which(a) {
			found = true
			a.cancel(cause)
		}
	}
	return found
}

// asking records the request that a person is asked about for the turn of a scope; the zero value clears it. Senders of messages that
// wait behind the turn are told.
func (r *registry) asking(scope string, request consent.Approval) {
	r.mu.Lock()
	if a := r.running[scope]; a != nil {
		a.asking, a.told = request, map[message.ConversationKey]bool{}
	}
	r.mu.Unlock()
	r.tellBehind(scope)
}

// queued counts the items that wait in a scope.
func (r *registry) queued(scope string) int {
	n := len(r.queue.Waiting(scope))
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.running[scope]; a != nil {
		n += len(a.rest)
	}
	return n
}

// register registers the turn, and stops it if an item that arrived before would have stopped it.
func (t *turn) register(cancel context.CancelCauseFunc) (unregister func()) {
	if t.delegated != nil {
		return t.follow(cancel)
	}
	remove := t.add(t.scope.Key, &active{
		cancel: cancel, conversation: t.row.ConversationKey(), origin: t.origin, rest: t.rest, turn: t.row,
		interrupts: t.mayInterrupt && t.gen.queue(t.agent, t.row.Channel) == QueueInterrupt,
	})
	t.Arrived(t.scope.Key)
	if t.cfg.Stopped() != "" {
		cancel(errHalted)
	}
	return remove
}

// Arrived is called when an item was queued in a scope.
func (r *registry) Arrived(scope string) {
	r.mu.Lock()
	a := r.running[scope]
	r.mu.Unlock()
	if a != nil && a.interrupts && a.overtaken(r.queue.Waiting(scope)) {
		a.cancel(errInterrupted)
	}
	r.tellBehind(scope)
}

// asked implements prompts. Messages that wait behind a parent also wait behind its delegated turn.
func (t *turn) asked(ctx context.Context, a consent.Approval) (answered func()) {
	t.cfg.Notices.Asked(ctx, t.row, answers(t.origin), a)
	for t.delegated != nil {
		if t.delegated.parent == nil {
			return func() {} // nobody waits for a background turn
		}
		t = t.delegated.parent
	}
	t.asking(t.scope.Key, a)
	return func() { t.asking(t.scope.Key, consent.Approval{}) }
}

// withdraw implements prompts. Requests left open by a host that shuts down are taken up by the next one together with their turn.
func (t *turn) withdraw(ctx context.Context, requests []string) {
	for _, id := range requests {
		if t.host.Err() != nil {
			return
		}
		if err := t.cfg.Approvals.Withdraw(context.WithoutCancel(ctx), id); err != nil {
			t.log.Error("cannot withdraw a request for approval", "turn", t.row.ID, "id", id, "error", err)
		}
	}
}

// withdrawOwn ends the requests that an earlier process left open for a turn that ends without being resumed.
func (r *Runner) withdrawOwn(ctx context.Context, turn string) {
	err := r.cfg.Approvals.WithdrawAll(context.WithoutCancel(ctx), func(t string) bool { return t == turn })
	if err != nil {
		r.cfg.Log.Error("cannot withdraw the requests for approval of a turn", "turn", turn, "error", err)
	}
}

// tellBehind tells the conversations with queued messages or commands that they wait for a person.
func (r *registry) tellBehind(scope string) {
	waiting := r.queue.Waiting(scope)
	r.mu.Lock()
	a := r.running[scope]
	if a == nil || a.asking.ID == "" {
		r.mu.Unlock()
		return
	}
	turn, request := a.turn, a.asking
	var tell []message.Message
	for _, it := range slices.Concat(a.rest, waiting) {
		m := it.Row.Message
		if it.Turn != nil || it.Alone != nil || a.told[m.ConversationKey()] {
			continue
		}
		a.told[m.ConversationKey()] = true
		tell = append(tell, m)
	}
	r.mu.Unlock()
	for _, m := range tell {
		r.notices.Behind(turn, m, request)
	}
}

// overtaken reports whether the next queued item is another message of the sender whom the turn answers. A message behind another
// sender's waits: stopping the turn would not bring it forward.
func (a *active) overtaken(waiting []Item) bool {
	if len(a.rest) > 0 {
		waiting = a.rest
	}
	return len(waiting) > 0 && waiting[0].follows(a.origin)
}

// follows reports whether an item can be answered together with a message: both come from the same sender in the same conversation. A
// turn acts with the rights of one sender and answers in one conversation.
func (it Item) follows(m message.Message) bool {
	n := it.Row.Message
	return it.Turn == nil && !it.Order && it.Alone == nil && n.Channel == m.Channel && n.Conversation.ID == m.Conversation.ID && joins(m, n)
}

// Stop ends the turn that runs in a scope and all turns delegated there, and reports whether there was one.
func (r *registry) Stop(scope string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.running[scope]
	if ok {
		a.cancel(errStopped)
	}
	return r.children.Stop(errStopped, children.InScope(scope)) || ok
}

// Stopper returns a function that stops the turn that runs in a scope and all turns delegated there, or nil if there is none. It
// ignores a turn that answers a message sent after said, because that one did not run when the stop was asked for.
func (r *registry) Stopper(scope string, said time.Time) func() {
	r.mu.Lock()
	a := r.running[scope]
	r.mu.Unlock()
	if a != nil && a.origin.ReceivedAt.After(said) {
		a = nil
	}
	if a == nil && !r.Delegated(scope) {
		return nil
	}
	return func() {
		if a != nil {
			a.cancel(errStopped)
		}
		r.children.Stop(errStopped, children.InScope(scope))
	}
}

// Running reports whether a turn runs in a scope.
func (r *registry) Running(scope string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.running[scope]
	return ok
}

// Delegated reports whether a delegated turn of a scope runs.
func (r *registry) Delegated(scope string) bool { return r.children.Any(children.InScope(scope)) }

// StopIn is like Stop for the turn that answers in a conversation.
func (r *registry) StopIn(conversation message.ConversationKey) bool {
	return r.endIn(conversation, errStopped)
}

// HangUp is like StopIn, for an API client that no longer waits for its answer.
func (r *registry) HangUp(conversation message.ConversationKey) bool {
	return r.endIn(conversation, errHungUp)
}

func (r *registry) endIn(conversation message.ConversationKey, cause error) bool {
	delegated := r.children.Stop(cause, children.InConversation(conversation))
	return r.stopAll(cause, func(a *active) bool { return a.conversation == conversation }) || delegated
}

// RunningIn is like Running for a conversation.
func (r *registry) RunningIn(conversation message.ConversationKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.running {
		if a.conversation == conversation {
			return true
		}
	}
	return false
}

// StopFor ends the running turns of a sender.
func (r *registry) StopFor(sender message.SenderKey) {
	r.stopAll(errStopped, func(a *active) bool { return a.origin.SenderKey() == sender })
}

// Readmit ends the turns whose senders the generation in force no longer admits.
func (r *Runner) Readmit() {
	gen, policies := r.cfg.Generations.InForce()
	defer policies.Release()
	r.stopAll(errUnheard, func(a *active) bool { return gen.Admission.Refusal(a.origin) != "" })
	r.children.Stop(errUnheard, func(t turnlog.Turn) bool {
		sender := t.Sender.ID()
		if message.ForeignSenders(t.Channel) {
			sender = string(t.Sender)
		}
		return route.Door(t.Channel) == route.FrontendChannel && gen.Admission.Refusal(message.Message{
			Channel: t.Channel, Conversation: t.Conversation, Addressed: true, Sender: message.Sender{ID: sender},
		}) != ""
	})
}

// release ends the turn without an answer and leaves its messages to the next one. The messages are unanswered as before, and the steps
// stay in the transcript. It returns those messages, or none if the commit failed.
func (t *turn) release(ctx context.Context, cause error, rows []mailbox.InboxRow) []Item {
	if t.resumed {
		t.withdrawOwn(ctx, t.row.ID)
	}
	now := t.cfg.Now().UTC()
	t.row.State, t.row.Ended, t.row.Error, t.row.Inbox = turnlog.TurnStopped, now, cause.Error(), nil
	if err := t.commit(ctx); err != nil {
		t.sessions.forget(t.row.Session)
		if store.Settled(err) {
			t.cfg.Log.Error("turn was settled elsewhere", "turn", t.row.ID, "error", err)
			t.publish(message.Event{Kind: message.TurnDone})
		}
		return nil
	}
	t.remember()
	t.publish(message.Event{Kind: message.TurnDone})
	t.cfg.Events.Publish(TurnEnded{Turn: t.row.ID, Agent: t.row.Agent, State: turnlog.TurnStopped, Took: now.Sub(t.row.Started), Released: true})
	var items []Item
	for _, row := range rows {
		items = append(items, Item{Row: row, released: true})
	}
	return items
}
