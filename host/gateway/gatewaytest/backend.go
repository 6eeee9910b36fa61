// Package gatewaytest is a small in-memory host for the tests of the gateway and of its clients.
//
// Start with New. Backend keeps the promises of gateway.Backend: messages are accepted once per event id and
// answered in order, watchers that are too slow are cut off, and the history agrees with the events. An agent is a function
// (Agent); Demo is a ready one. Nothing is stored and no tool runs. Browser starts a real browser for the page.
package gatewaytest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/watch"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Agent answers one message. Returning an error fails the turn.
type Agent func(ctx context.Context, t *Turn, text string) (reply string, err error)

// Backend is the host. The fields are set before the first call.
type Backend struct {
	Agent Agent
	// Buffer is the number of events that a watcher may lag; 0 means watch.DefaultBuffer.
	Buffer int
	Info   gateway.Status
	// Holds are the resources that senders hold.
	Holds []gateway.Held
	// Spent returns the usage of model calls; nil means none.
	Spent func(by usage.Key, since time.Time) ([]usage.Sum, error)

	hub *watch.Hub // made with the first use

	mu        sync.Mutex // guards everything below, and hub
	notReady  error
	submitErr error
	deleteErr error
	convs     map[string]*conversation // by "channel:id"
	seen      map[string]bool          // by "channel:event id"
	approvals map[string]*approval
	order     []string // of approvals
	grants    []gateway.Grant
	strangers []gateway.AccessEntry
	persons   []person
	serial    int
	halted    *gateway.HaltStatus
	reason    string                         // of traces
	files     map[string][]byte              // by handle
	keyed     map[[2]string]store.KeyedWrite // by caller and key
	changes   []store.Change
	more      chan struct{} // closed with the next change; nil while nobody waits

	ctx    context.Context
	cancel context.CancelFunc
	turns  sync.WaitGroup
}

type conversation struct {
	info    gateway.ConversationInfo
	senders []message.SenderKey
	entries []gateway.Entry // that are committed
	turn    *Turn           // that runs
	queue   []message.Message
	stop    context.CancelFunc // of the running turn
}

type approval struct {
	consent.Approval
	answer chan bool
}

// New returns a host without conversations. The caller must call Close.
func New(agent Agent) *Backend {
	ctx, cancel := context.WithCancel(context.Background())
	return &Backend{
		Agent: agent, convs: map[string]*conversation{}, seen: map[string]bool{},
		approvals: map[string]*approval{}, ctx: ctx, cancel: cancel,
	}
}

// Close ends every turn and waits for it.
func (b *Backend) Close() {
	b.cancel()
	b.turns.Wait()
}

// SetReady makes Ready return err.
func (b *Backend) SetReady(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notReady = err
}

// FailSubmit makes Submit return err until it is called with nil.
func (b *Backend) FailSubmit(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.submitErr = err
}

// FailDelete makes DeleteConversation return err until it is called with nil.
func (b *Backend) FailDelete(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deleteErr = err
}

// Accepted returns the number of messages that were accepted.
func (b *Backend) Accepted() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.seen)
}

// Subjects are those that the host has.
func (b *Backend) Subjects() gateway.Backend {
	return gateway.Backend{Conversations: b, Approvals: b, Status: b, Access: b, Events: b, People: people{b}, SignIns: b,
		Explains: b, Files: b, Keys: b, Halter: b, Usages: b}
}

// Submit implements gateway.Conversations.
func (b *Backend) Submit(_ context.Context, m message.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.submitErr != nil {
		return b.submitErr
	}
	id := m.Channel + ":" + m.EventID
	if b.seen[id] {
		return nil
	}
	b.seen[id] = true
	c := b.conversation(m.Channel, m.Conversation.ID)
	if c.info.Title == "" {
		c.info.Title, _, _ = strings.Cut(m.Text, "\n")
	}
	c.info.Last = time.Now()
	c.senders = append(c.senders, m.SenderKey())
	c.queue = append(c.queue, m)
	b.watching().Publish(message.Event{Kind: message.Said, Channel: m.Channel, Conversation: m.Conversation.ID, Key: m.EventID,
		Text: m.Text, Files: m.FileNames()})
	b.changed(c)
	b.next(c)
	return nil
}

// next starts the next turn of a conversation. The lock is held.
func (b *Backend) next(c *conversation) {
	if c.stop != nil || len(c.queue) == 0 || b.ctx.Err() != nil {
		return
	}
	m := c.queue[0]
	c.queue = c.queue[1:]
	ctx, stop := context.WithCancel(b.ctx)
	c.stop, c.info.Running, c.info.Agent = stop, true, "demo"
	t := &Turn{backend: b, conv: c, message: m, id: b.id("turn")}
	t.pending = []gateway.Entry{{From: gateway.FromUser, Text: m.Text, Time: m.ReceivedAt, Key: m.EventID, Turn: t.id, Files: m.FileNames()}}
	c.turn = t
	b.changed(c)
	b.turns.Go(func() {
		defer stop()
		b.turn(ctx, t)
	})
}

func (b *Backend) turn(ctx context.Context, t *Turn) {
	t.publish(message.Event{Kind: message.TurnStarted, Answers: []string{t.message.EventID}}, nil)
	reply, err := b.Agent(ctx, t, t.message.Text)
	if ctx.Err() != nil {
		err = fmt.Errorf("the turn was stopped")
	}
	end := gateway.Entry{From: gateway.FromAgent, Text: reply, Key: "reply-" + t.id}
	kind, key := message.ReplyReady, end.Key
	if err != nil {
		end = gateway.Entry{From: gateway.FromAgent, Text: err.Error(), IsError: true}
		kind, key = message.TurnFailed, ""
	}
	t.publish(message.Event{Kind: kind, Text: end.Text, Key: key, IsError: end.IsError}, func(c *conversation) {
		t.add(end)
		t.commit()
	})
	t.publish(message.Event{Kind: message.TurnDone}, func(c *conversation) {
		c.stop, c.turn, c.info.Running, c.info.Last = nil, nil, false, time.Now()
		c.info.Turns++
		if b.convs[c.info.Channel+":"+c.info.ID] == c {
			b.changed(c)
		}
		b.next(c)
	})
}

// Watch implements gateway.Conversations.
func (b *Backend) Watch(channel, id string) ([]message.Event, <-chan message.Event, func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.watching().Watch(channel, id)
}

// watching is the hub. The lock is held.
func (b *Backend) watching() *watch.Hub {
	if b.hub == nil {
		b.hub = watch.NewHub(b.Buffer)
	}
	return b.hub
}

// History implements gateway.Conversations.
func (b *Backend) History(_ context.Context, channel, id string, limit int) ([]gateway.Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.convs[channel+":"+id]
	if !ok {
		return nil, nil
	}
	out, waiting := slices.Clone(c.entries), c.queue
	if c.turn != nil && !c.turn.committed { // nothing is known of a turn before its first commit
		waiting = slices.Concat([]message.Message{c.turn.message}, waiting)
	}
	for _, m := range waiting {
		out = append(out, gateway.Entry{From: gateway.FromUser, Text: m.Text, Time: m.ReceivedAt, Key: m.EventID, Files: m.FileNames()})
	}
	out = out[max(0, len(out)-limit):]
	for i, e := range out {
		if e.Call != nil {
			call := *e.Call
			out[i].Call = &call
		}
	}
	return out, nil
}

// Entries implements gateway.Conversations: all of them are one page.
func (b *Backend) Entries(ctx context.Context, channel, id, _ string, limit int) (gateway.Page[gateway.Entry], error) {
	list, err := b.History(ctx, channel, id, limit)
	return gateway.Page[gateway.Entry]{Items: list}, err
}

// Conversations implements gateway.Conversations.
func (b *Backend) Conversations(ctx context.Context, f gateway.ConversationFilter) (gateway.Page[gateway.ConversationInfo], error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []gateway.ConversationInfo
	for _, c := range b.convs {
		if c.known() && f.From.Has(c.info.Program) && (f.Of == "" || c.belongsTo(f.Of)) {
			list = append(list, c.info)
		}
	}
	return gateway.ConversationPage(list, f), nil
}

// Conversation implements gateway.Conversations.
func (b *Backend) Conversation(_ context.Context, channel, id string) (gateway.ConversationInfo, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.convs[channel+":"+id]
	if !ok || !c.known() {
		return gateway.ConversationInfo{}, store.NotFound("there is no such conversation")
	}
	return c.info, nil
}

// BelongsTo implements gateway.Conversations.
func (b *Backend) BelongsTo(_ context.Context, sender message.SenderKey, channel, id string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.convs[channel+":"+id]
	return ok && c.belongsTo(sender), nil
}

func (c *conversation) belongsTo(sender message.SenderKey) bool {
	return len(c.senders) > 0 && !slices.ContainsFunc(c.senders, func(s message.SenderKey) bool { return s != sender })
}

// DeleteConversation implements gateway.Conversations.
func (b *Backend) DeleteConversation(_ context.Context, channel, id, _ string, stop bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.convs[channel+":"+id]
	switch {
	case b.deleteErr != nil:
		return b.deleteErr
	case !ok || !c.known():
		return store.ErrNotFound
	case c.stop != nil && !stop:
		return store.ErrConflict
	case c.stop != nil:
		c.stop()
	}
	delete(b.convs, channel+":"+id)
	b.changed(c)
	return nil
}

// Stop implements gateway.Conversations.
func (b *Backend) Stop(_ context.Context, channel, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.conversation(channel, id); c.stop != nil {
		c.stop()
	}
	return nil
}

// Approvals implements gateway.Approvals.
func (b *Backend) Approvals(context.Context) ([]consent.Approval, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []consent.Approval
	for _, id := range b.order {
		if a := b.approvals[id]; a.State == consent.ApprovalPending {
			list = append(list, a.Approval)
		}
	}
	return list, nil
}

// Decide implements gateway.Approvals.
func (b *Backend) Decide(_ context.Context, id string, grant bool, by string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.approvals[id]
	switch {
	case !ok:
		return store.ErrNotFound
	case a.State != consent.ApprovalPending:
		return store.ErrConflict
	}
	a.State, a.Decider, a.Decided = consent.ApprovalDenied, by, time.Now()
	if grant {
		a.State = consent.ApprovalGranted
	}
	b.note(store.Approvals, a.ID, a.Requester)
	a.answer <- grant // buffered, sent once
	return nil
}

// Grant implements gateway.Approvals: calls whose command begins with "bad" cannot be granted for longer.
func (b *Backend) Grant(ctx context.Context, id, scope string, _ time.Duration, _, by string) error {
	b.mu.Lock()
	a, ok := b.approvals[id]
	b.mu.Unlock()
	if ok && scope == string(consent.GrantStanding) && !b.Offer(a.Approval).MayStanding {
		return gateway.ErrBadGrant
	}
	if err := b.Decide(ctx, id, true, by); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grants = append(b.grants, gateway.Grant{
		Grant: consent.Grant{ID: id, Scope: consent.GrantScope(scope), Tool: a.Tool, Args: a.Args, Granter: by}, Open: true, Covers: "this call",
	})
	return nil
}

// Offer implements gateway.Approvals.
func (b *Backend) Offer(a consent.Approval) gateway.Offer {
	if strings.Contains(string(a.Args), `"bad`) {
		return gateway.Offer{
			MaySession: true, SessionCovers: "this call in this session", NotStanding: "bad can run any program", SessionShell: "bad can run any program",
			Unshown: []string{"Badfile (bad)"}, NotHeld: "not held on this machine: memory_limit",
		}
	}
	return gateway.Offer{MaySession: true, MayStanding: true, SessionCovers: "this call in this session", StandingCovers: "this call until next month"}
}

// Grants implements gateway.Approvals.
func (b *Backend) Grants(context.Context) ([]gateway.Grant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.grants), nil
}

// Revoke implements gateway.Approvals.
func (b *Backend) Revoke(_ context.Context, id, _ string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.grants {
		if b.grants[i].ID == id {
			b.grants[i].Open = false
			b.note(store.Approvals, id, "")
			return nil
		}
	}
	return store.ErrNotFound
}

// Audit implements gateway.Approvals.
func (b *Backend) Audit(_ context.Context, f consent.AuditFilter) ([]consent.AuditRow, error) {
	return []consent.AuditRow{{ID: 1, Kind: "grant", Subject: f.Subject}}, nil
}

// Decider returns who answered an approval.
func (b *Backend) Decider(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, ok := b.approvals[id]; ok {
		return a.Decider
	}
	return ""
}

// Status implements gateway.Reporter.
func (b *Backend) Status(context.Context) gateway.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.Info
	s.Halt = b.halted
	return s
}

// Intro implements gateway.Reporter.
func (b *Backend) Intro(string, message.SenderKey) gateway.Intro {
	return gateway.Intro{Notice: "This is a test.", Try: []gateway.Suggestion{
		{Text: "hello", Does: "is answered"}, {Text: "!ask make", Does: "asks first"}, {Text: "/status", Does: "shows the state"},
	}}
}

// Halt implements gateway.Halter. Nothing really stops.
func (b *Backend) Halt(_ context.Context, on bool, reason, by string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.halted = nil
	b.note(store.Halt, "", "")
	if on {
		b.halted = &gateway.HaltStatus{Reason: reason, By: by, Since: time.Now().UTC()}
	}
	return nil
}

// Ready implements gateway.Reporter.
func (b *Backend) Ready(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.notReady
}

// conversation returns a conversation, made when it is new. The lock is held.
func (b *Backend) conversation(channel, id string) *conversation {
	key := channel + ":" + id
	c, ok := b.convs[key]
	if !ok {
		c = &conversation{
			info: gateway.ConversationInfo{Channel: channel, ID: id},
		}
		b.convs[key] = c
	}
	return c
}

// known reports whether anything was said.
func (c *conversation) known() bool { return c.turn != nil || len(c.entries)+len(c.queue) > 0 }

// id returns a fresh name. The lock is held.
func (b *Backend) id(what string) string {
	b.serial++
	return fmt.Sprintf("%s-%04d", what, b.serial)
}
