package agent

import (
	"context"
	"errors"
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

// Queue says how messages are queued that come while an answer is made.
const (
	QueueCollect   = "collect"   // answered together by the next turn; also the zero value
	QueueFollowup  = "followup"  // each by a turn of its own
	QueueInterrupt = "interrupt" // one of the same sender stops the turn, and is answered together with what that one answered
)

// queue is the mode for an agent's answers on a channel.
func (g *Generation) queue(a *Agent, channel string) string {
	switch {
	case a != nil && a.Queue != "":
		return a.Queue
	case g.Queues[channel] != "":
		return g.Queues[channel]
	}
	return g.Queue
}

// active is a turn that runs.
type active struct {
	cancel       context.CancelCauseFunc
	conversation message.ConversationKey // its key, where the answer goes
	origin       message.Message
	rest         []Item // of the queue, that came before what waits in the lane
	interrupts   bool   // a further message may stop it
	turn         turnlog.Turn
	asking       consent.Approval                 // what a person is asked about now; the zero value while nobody is
	told         map[message.ConversationKey]bool // conversations that have heard of it
}

// registry has the turns that run, so that others can stop them.
type registry struct {
	queue    Backlog
	notices  Notices
	children *children.Supervisor

	mu      sync.Mutex
	running map[string]*active // by place
}

// add makes a turn known that runs in a place.
func (r *registry) add(place string, a *active) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[place] = a
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.running, place)
	}
}

// stopAll ends the turns that run and that which is true of.
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

// asking notes what a person is asked about for the turn of a place; the zero value says that nobody is asked any more. Everybody who waits
// behind that turn is told.
func (r *registry) asking(place string, request consent.Approval) {
	r.mu.Lock()
	if a := r.running[place]; a != nil {
		a.asking, a.told = request, map[message.ConversationKey]bool{}
	}
	r.mu.Unlock()
	r.tellBehind(place)
}

// queued counts what waits for its turn in a place.
func (r *registry) queued(place string) int {
	n := len(r.queue.Waiting(place))
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.running[place]; a != nil {
		n += len(a.rest)
	}
	return n
}

// register lets others find the turn, and looks whether something that came in the meantime would have stopped it.
func (t *turn) register(cancel context.CancelCauseFunc) (unregister func()) {
	if t.delegated != nil {
		return t.follow(cancel)
	}
	remove := t.add(t.place.Key, &active{
		cancel: cancel, conversation: t.row.ConversationKey(), origin: t.origin, rest: t.rest, turn: t.row,
		interrupts: t.mayInterrupt && t.gen.queue(t.agent, t.row.Channel) == QueueInterrupt,
	})
	t.Arrived(t.place.Key)
	if t.cfg.Stopped() != "" {
		cancel(errHalted)
	}
	return remove
}

// Arrived is called when something was put into the queue of a place.
func (r *registry) Arrived(place string) {
	r.mu.Lock()
	a := r.running[place]
	r.mu.Unlock()
	if a != nil && a.interrupts && a.overtaken(r.queue.Waiting(place)) {
		a.cancel(errInterrupted)
	}
	r.tellBehind(place)
}

// asked implements prompts. Those wait behind a delegated turn who wait behind the turn that waits for it.
func (t *turn) asked(ctx context.Context, a consent.Approval) (answered func()) {
	t.cfg.Notices.Asked(ctx, t.row, answers(t.origin), a)
	for t.delegated != nil {
		if t.delegated.parent == nil {
			return func() {} // in the background nobody waits for it
		}
		t = t.delegated.parent
	}
	t.asking(t.place.Key, a)
	return func() { t.asking(t.place.Key, consent.Approval{}) }
}

// withdraw implements prompts. Requests that a host which goes down leaves open are taken up by the next one, with their turn.
func (t *turn) withdraw(ctx context.Context, requests []string) {
	for _, id := range requests {
		if t.host.Err() != nil {
			return
		}
		if err := t.cfg.Approvals.Withdraw(context.WithoutCancel(ctx), id); err != nil {
			t.log.Error("withdraw a request for approval", "turn", t.row.ID, "id", id, "error", err)
		}
	}
}

// withdrawOwn ends the requests that an earlier process left to the turn and that it ends without having taken up.
func (r *Runner) withdrawOwn(ctx context.Context, turn string) {
	err := r.cfg.Approvals.WithdrawAll(context.WithoutCancel(ctx), func(t string) bool { return t == turn })
	if err != nil {
		r.cfg.Log.Error("withdraw the requests for approval of a turn", "turn", turn, "error", err)
	}
}

// tellBehind tells the conversations with messages or orders in the queue of a place what these wait for, where that is a person.
func (r *registry) tellBehind(place string) {
	waiting := r.queue.Waiting(place)
	r.mu.Lock()
	a := r.running[place]
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

// overtaken reports whether the next in the queue is a further message of the sender whom the turn answers. A message behind another
// sender's waits: stopping the turn would not bring it forward.
func (a *active) overtaken(waiting []Item) bool {
	if len(a.rest) > 0 {
		waiting = a.rest
	}
	return len(waiting) > 0 && waiting[0].follows(a.origin)
}

// follows reports whether an item can be answered together with a message: it is one of the same sender in the same conversation. A
// turn acts with the rights of its sender, and answers in one place.
func (it Item) follows(m message.Message) bool {
	n := it.Row.Message
	return it.Turn == nil && !it.Order && it.Alone == nil && n.Channel == m.Channel && n.Conversation.ID == m.Conversation.ID && joins(m, n)
}

// Stop ends the turn that runs in a place, with all that was delegated there, and reports whether there was one.
func (r *registry) Stop(place string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.running[place]
	if ok {
		a.cancel(errStopped)
	}
	return r.children.Stop(errStopped, children.InPlace(place)) || ok
}

// Stopper returns what stops the turn that runs in a place, with all that was delegated there, or nil where there is none. A turn that
// answers what came after said is another one: it was not there when somebody asked to stop.
func (r *registry) Stopper(place string, said time.Time) func() {
	r.mu.Lock()
	a := r.running[place]
	r.mu.Unlock()
	if a != nil && a.origin.ReceivedAt.After(said) {
		a = nil
	}
	if a == nil && !r.Delegated(place) {
		return nil
	}
	return func() {
		if a != nil {
			a.cancel(errStopped)
		}
		r.children.Stop(errStopped, children.InPlace(place))
	}
}

// Running reports whether a turn runs in a place.
func (r *registry) Running(place string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.running[place]
	return ok
}

// Delegated reports whether something that was delegated in a place runs.
func (r *registry) Delegated(place string) bool { return r.children.Any(children.InPlace(place)) }

// StopIn is Stop for the turn that answers in a conversation, by its key.
func (r *registry) StopIn(conversation message.ConversationKey) bool {
	return r.endIn(conversation, errStopped)
}

// HangUp is StopIn for a program that no longer waits for its answer.
func (r *registry) HangUp(conversation message.ConversationKey) bool {
	return r.endIn(conversation, errHungUp)
}

func (r *registry) endIn(conversation message.ConversationKey, cause error) bool {
	delegated := r.children.Stop(cause, children.InConversation(conversation))
	return r.stopAll(cause, func(a *active) bool { return a.conversation == conversation }) || delegated
}

// RunningIn is Running for a conversation.
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

// StopFor ends the turns that run for a sender, by his key.
func (r *registry) StopFor(sender message.SenderKey) {
	r.stopAll(errStopped, func(a *active) bool { return a.origin.SenderKey() == sender })
}

// Readmit ends the turns whose senders the generation in force no longer admits: they are neither worked for nor answered.
func (r *Runner) Readmit() {
	gen, policies := r.cfg.Generations.InForce()
	defer policies.Release()
	r.stopAll(errUnheard, func(a *active) bool { return gen.Admission.Refusal(a.origin) != "" })
	r.children.Stop(errUnheard, func(t turnlog.Turn) bool {
		return route.Door(t.Channel) == route.DoorChannel && gen.Admission.Refusal(message.Message{
			Channel: t.Channel, Conversation: t.Conversation, Addressed: true,
			Sender: message.Sender{ID: t.Sender.ID()},
		}) != ""
	})
}

// release ends the turn without an answer and leaves its messages to the next one: they are new as before, and what the turn did
// stays in the transcript. It returns those messages, and none where that could not be done.
func (t *turn) release(ctx context.Context, cause error, rows []mailbox.InboxRow) []Item {
	if t.resumed {
		t.withdrawOwn(ctx, t.row.ID)
	}
	now := t.cfg.Now().UTC()
	t.row.State, t.row.Ended, t.row.Error, t.row.Inbox = turnlog.TurnStopped, now, cause.Error(), nil
	if err := t.commit(ctx); err != nil {
		t.sessions.forget(t.row.Session)
		if errors.Is(err, store.ErrConflict) {
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
