package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/keyed"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// hall is a house whose queue runs beside the test.
type hall struct {
	*house
	queue   *keyed.Group[Item]
	stopped atomic.Pointer[string] // the kill switch
	entered chan string            // the last text of each model call
	leave   chan struct{}          // lets one call answer
	orders  []string               // what stood in the queue as an order, with the epoch that it found
}

// open starts the queue of a house over a store; the returned function ends the process like a crash.
func open(t *testing.T, s Store, h *house, scope *route.Scopes, halted string) (_ *hall, kill func()) {
	t.Helper()
	r := &hall{house: h, entered: make(chan string, 100), leave: make(chan struct{}, 100)}
	r.stopped.Store(&halted)
	h.gen.Models = script(r.stream)
	cfg := h.runner.cfg
	cfg.Stopped = func() string { return *r.stopped.Load() }
	h.on.waiting = func(scope string) []Item { return r.queue.Waiting(scope) }
	h.on.order = r.order
	if scope != nil {
		h.on.scope = scope.Scope
	}
	h.runner = NewRunner(cfg)
	r.queue = keyed.New(100, h.runner.Work)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	items, err := Recover(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		it.Order = it.Turn == nil && it.Row.Message.Text == "/new"
		r.push(it)
	}
	done.Go(func() { r.queue.Run(ctx) })
	kill = sync.OnceFunc(func() { cancel(); done.Wait() })
	t.Cleanup(kill)
	return r, kill
}

func (r *hall) push(it Item) {
	scope := r.runner.QueueKey(it)
	r.queue.Push(scope, it)
	r.runner.Arrived(scope)
}

// stream answers by the parrot once it is let go.
func (r *hall) stream(ctx context.Context, req model.Request) (model.Response, error) {
	last := req.Messages[len(req.Messages)-1]
	r.entered <- last.Text
	select {
	case <-r.leave:
		return parrot(ctx, req)
	case <-ctx.Done():
		return model.Response{}, ctx.Err()
	}
}

// order begins a new session, as the chat command does.
func (r *hall) order(ctx context.Context, scope string, row mailbox.InboxRow) {
	at, err := r.store.Scope(ctx, scope)
	if err != nil {
		r.t.Error(err)
		return
	}
	r.mu.Lock()
	r.orders = append(r.orders, fmt.Sprintf("%s in epoch %d", row.Message.Text, at.Epoch))
	r.mu.Unlock()
	at.Epoch, at.Why = at.Epoch+1, turnlog.BeganAsked
	if err := r.store.Settle(ctx, turnlog.Settlement{Inbox: row.ID, Scope: &at, Told: r.runner.Untold(scope)}); err != nil && !errors.Is(err, store.ErrConflict) {
		r.t.Error(err)
	}
}

func (r *hall) say(channel, conversation, sender, text string) mailbox.InboxRow {
	r.t.Helper()
	kind := message.DM
	if strings.HasPrefix(conversation, "#") {
		kind = message.Group
	}
	row, _, err := r.store.AppendInbox(r.t.Context(), message.Message{
		Channel: channel, EventID: store.NewID(time.Now()), Text: text, Sender: message.Sender{ID: sender}, ReceivedAt: time.Now().UTC(),
		Conversation: message.Conversation{ID: conversation, Kind: kind},
	}, mailbox.InboxNew, "")
	if err != nil {
		r.t.Fatal(err)
	}
	r.push(Item{Row: row, Order: text == "/new"})
	return row
}

// asked waits for a model call and returns the text that it is about.
func (r *hall) asked() string {
	r.t.Helper()
	select {
	case text := <-r.entered:
		return text
	case <-time.After(time.Minute):
		r.t.Fatal("no model was asked")
		return ""
	}
}

// wantAsked waits for a model call with the text.
func (r *hall) wantAsked(text string) {
	r.t.Helper()
	if got := r.asked(); got != text {
		r.t.Fatalf("the model is asked %q, want %q", got, text)
	}
}

// until waits for something.
func (r *hall) until(what string, done func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("still not: %s; replies are %q", what, r.texts())
		}
	}
}

// answered waits until there are as many replies and returns them.
func (r *hall) answered(n int) []string {
	r.t.Helper()
	r.until(fmt.Sprint(n, " replies"), func() bool { return len(r.texts()) >= n })
	return r.texts()
}

// nothingLeft waits until no message waits for an answer.
func (r *hall) nothingLeft() {
	r.t.Helper()
	r.until("all is answered", func() bool {
		items, err := Recover(r.t.Context(), r.store)
		if err != nil {
			r.t.Fatal(err)
		}
		return len(items) == 0
	})
}

func (r *hall) wantReplies(texts ...string) {
	r.t.Helper()
	if got := r.answered(len(texts)); !slices.Equal(got, texts) {
		r.t.Fatalf("replies are %q, want %q", got, texts)
	}
}

func newHall(t *testing.T, change func(*house)) *hall {
	t.Helper()
	s := openStore(t)
	h := newHouse(t, s, nil)
	if change != nil {
		change(h)
	}
	r, _ := open(t, s, h, nil, "")
	return r
}

// TestLinkedChatsAreOneSession: what was said in one is known in the other, their turns do not run side by side, and each answer goes
// to where its message came from.
func TestLinkedChatsAreOneSession(t *testing.T) {
	s := openStore(t)
	h := newHouse(t, s, nil)
	h.gen.Roles = route.NewRoles(config.Access{}, route.AllProved)
	scope := route.NewScopes(config.Sessions{Links: map[string][]string{"ann": {"irc:ann", "slack:ann"}}}, h.gen.Roles)
	r, _ := open(t, s, h, scope, "")
	r.say("irc", "ann", "ann", "one")
	r.wantAsked("one")
	r.say("slack", "D1", "ann", "two") // the same name on another channel: not joined
	r.say("irc", "#flynn", "ann", "in a group")
	r.wantAsked("<ann> in a group") // beside it
	r.leave <- struct{}{}
	r.leave <- struct{}{}
	r.wantAsked("two")
	r.leave <- struct{}{}
	r.answered(3)
	where := map[string]string{}
	for _, reply := range r.replies {
		where[reply.Text] = reply.Channel + ":" + reply.Conversation.ID
	}
	if where["echo: one"] != "irc:ann" || where["echo: two"] != "slack:D1" {
		t.Errorf("answers went to %v", where)
	}
	r.nothingLeft()
	for key, turns := range map[message.SessionKey]int{"@ann:helper": 2, "irc:#flynn:helper": 1} {
		if got, err := s.Session(t.Context(), key); err != nil || got.Turns != turns {
			t.Errorf("session %s has %d turns (%v), want %d", key, got.Turns, err, turns)
		}
	}
}

// TestANewSessionKnowsNothing: neither the transcript nor the labels of the one before; policies see an unused one.
func TestANewSessionKnowsNothing(t *testing.T) {
	var seen []policy.ToolFacts
	r := newHall(t, func(h *house) {
		h.chain.tool = func(f policy.ToolFacts) policy.Restrictions { seen = append(seen, f); return policy.Restrictions{} }
	})
	for range 10 {
		r.leave <- struct{}{}
	}
	r.say("irc", "ann", "ann", "!touch wood")
	r.say("irc", "ann", "ann", "/new")
	r.answered(1)
	r.say("irc", "ann", "ann", "!touch iron")
	r.answered(2)
	if len(seen) != 2 || len(seen[1].Labels) != 0 || seen[1].Used.Turns != 0 || seen[1].Session != "irc:ann:helper#2" {
		t.Errorf("at the second call: %+v", seen[1:])
	}
	r.nothingLeft()
	first, err := r.store.Session(t.Context(), "irc:ann:helper")
	if err != nil || first.Turns != 1 {
		t.Errorf("the session before has %d turns, %v", first.Turns, err)
	}
}

// TestAnOrderKeepsItsPlace: a /new neither overtakes what was said before it nor is overtaken, in any mode and over a crash.
func TestAnOrderKeepsItsScope(t *testing.T) {
	for _, mode := range []string{QueueCollect, QueueFollowup, QueueInterrupt} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s crash=%v", mode, crash), func(t *testing.T) {
				s := openStore(t)
				h := newHouse(t, s, nil)
				h.gen.Queue = mode
				r, kill := open(t, s, h, nil, "")
				r.say("irc", "ann", "ann", "one")
				r.wantAsked("one")
				r.say("irc", "ann", "ann", "/new")
				r.say("irc", "ann", "ann", "two")
				if crash {
					kill()
					h = newHouse(t, s, nil)
					h.gen.Queue = mode
					r, _ = open(t, s, h, nil, "")
					r.wantAsked("one")
				}
				r.leave <- struct{}{}
				r.wantAsked("two")
				r.leave <- struct{}{}
				r.wantReplies("echo: one", "echo: two")
				r.nothingLeft()
				for _, key := range []message.SessionKey{"irc:ann:helper", "irc:ann:helper#2"} {
					if got, err := s.Session(t.Context(), key); err != nil || got.Turns != 1 {
						t.Errorf("session %s has %d turns, %v", key, got.Turns, err)
					}
				}
				if !slices.Equal(r.orders, []string{"/new in epoch 1"}) {
					t.Errorf("orders: %q", r.orders)
				}
			})
		}
	}
}

func TestIdleScopesBeginAnew(t *testing.T) {
	s := openStore(t)
	h := newHouse(t, s, nil)
	now := time.Now()
	h.gen.Idle = time.Hour
	h.runner.cfg.Now = func() time.Time { return now }
	said := func(at time.Time, text string) {
		t.Helper()
		if _, _, err := s.AppendInbox(t.Context(), message.Message{
			Channel: "irc", EventID: store.NewID(time.Now()), Text: text, Sender: message.Sender{ID: "ann"}, ReceivedAt: at,
			Conversation: message.Conversation{ID: "ann", Kind: message.DM},
		}, mailbox.InboxNew, ""); err != nil {
			t.Fatal(err)
		}
		now = at
		h.work(t.Context())
	}
	said(now, "one")
	said(now.Add(59*time.Minute), "two")
	said(now.Add(61*time.Minute), "three")
	said(now.Add(time.Minute), "four")
	const note = "[Nothing was said here for long, so a new session begins. What was said before is not shown.]\n"
	h.want("echo: one", "echo: two", "echo: "+note+"three", "echo: four")
	for key, turns := range map[message.SessionKey]int{"irc:ann:helper": 2, "irc:ann:helper#2": 2} {
		if got, err := s.Session(t.Context(), key); err != nil || got.Turns != turns {
			t.Errorf("session %s has %d turns (%v), want %d", key, got.Turns, err, turns)
		}
	}
}

func TestAChosenTierIsUsedWhereItIsAllowed(t *testing.T) {
	for _, c := range []struct{ chosen, want string }{{"", "default"}, {"fast", "fast"}, {"complex", "default"}} {
		a := &Agent{Tier: "default", Window: 10, Tiers: map[string]int{"default": 10, "fast": 20}}
		got := a.fitted(c.chosen)
		if got.Tier != c.want || got.Window != a.Tiers[c.want] || a.Tier != "default" {
			t.Errorf("chosen %q: tier %s with window %d", c.chosen, got.Tier, got.Window)
		}
	}
}
