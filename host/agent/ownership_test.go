package agent

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// TestAConversationBeginsWithItsReplies: before this host works for a conversation that was another host's, it takes up the replies that the
// other one has written. Otherwise the next reply could be sent before them.
func TestAConversationBeginsWithItsReplies(t *testing.T) {
	for _, fails := range []error{nil, errors.New("the database is away")} {
		var order []string
		on := &around{takenUp: func(channel string) error {
			order = append(order, "replies over "+channel)
			return fails
		}}
		cfg := on.config()
		cfg.Store = openStore(t)
		r := NewRunner(cfg)
		r.Arrive(arriving(func(it Item) { order = append(order, "message "+it.Row.Message.EventID) }))
		m := message.Message{Channel: "irc", EventID: "1", Text: "hello", Sender: message.Sender{ID: "ann"}, Conversation: message.Conversation{ID: "#c:d"}}
		if _, _, err := cfg.Store.AppendInbox(t.Context(), m, "new", ""); err != nil {
			t.Fatal(err)
		}
		err := r.begins(t.Context(), "irc:#c:d", store.ConversationOwner(m.ConversationKey()))
		want := []string{"replies over irc", "message 1"}
		if fails != nil {
			want = want[:1]
		}
		if !errors.Is(err, fails) || !slices.Equal(order, want) {
			t.Errorf("%q, %v, want %q, %v", order, err, want, fails)
		}
	}
}

// TestWhatAnotherHostHasLeftComesFirst: messages come into the queue of a conversation before what is found in the store when the host claims
// the conversation, and are answered after it.
func TestWhatAnotherHostHasLeftComesFirst(t *testing.T) {
	cfg := (&around{}).config()
	cfg.Store, cfg.Ownership = openStore(t), &newcomer{}
	r := NewRunner(cfg)
	var queue []Item
	r.Arrive(arriving(func(it Item) { queue = append(queue, it) }))
	row := func(conversation, text string) Item {
		m := message.Message{Channel: "irc", EventID: text, Text: text, Sender: message.Sender{ID: "ann"}, Conversation: message.Conversation{ID: conversation}}
		row, _, err := cfg.Store.AppendInbox(t.Context(), m, mailbox.InboxNew, "")
		if err != nil {
			t.Fatal(err)
		}
		return Item{Row: row}
	}
	left := row("#c", "left")
	look := left
	look.Look = true
	third, fourth := row("#c", "third"), row("#c", "fourth")
	stale := row("#c", "answered") // by another host, while this one waited
	if err := cfg.Store.SetInbox(t.Context(), stale.Row.ID, mailbox.InboxDropped, ""); err != nil {
		t.Fatal(err)
	}
	var order []string
	work := func(_ context.Context, items []Item) []Item {
		for _, it := range items {
			order = append(order, it.Row.Message.Text)
		}
		return nil
	}
	if rest := r.owned(t.Context(), "irc:#c", []Item{stale, third, look, fourth}, work); len(order) > 0 || len(rest) > 0 {
		t.Fatalf("worked on %q before what is in the store was in the queue, %d items are left", order, len(rest))
	}
	queue = append([]Item{{Turn: &turnlog.Turn{ID: "t", Channel: "irc", Conversation: message.Conversation{ID: "#c"}}}}, queue...)
	r.owned(t.Context(), "irc:#c", append([]Item{queue[3], queue[1]}, queue[0], queue[2]), work)
	if want := []string{"", "left", "third", "fourth"}; !slices.Equal(order, want) { // the turn has no text
		t.Errorf("%q, want %q", order, want)
	}
	// A message that has been in the queue is not lacking, and one that another host has just committed is.
	if key := store.ConversationOwner("irc:#c"); r.holdings.lacks(key, left.Row.ID) || !r.holdings.lacks(key, fourth.Row.ID+1) || r.holdings.lacks("conversation irc:#d", 1) {
		t.Error("what is lacking is wrong")
	}
	// A turn that finds something settled has the store looked at again.
	queue = nil
	r.holdings.doubt(store.ConversationOwner("irc:#c"))
	if r.owned(t.Context(), "irc:#c", []Item{look}, work); len(order) != 4 || len(queue) != 3 || r.holdings.doubts(store.ConversationOwner("irc:#c")) {
		t.Errorf("%d items are found again, worked on %q", len(queue), order)
	}
}

// newcomer is the Ownership of a host that claims a conversation with its first Enter.
type newcomer struct {
	alone
	has bool
}

func (*newcomer) Shared() bool { return true }

func (n *newcomer) Enter(ctx context.Context, _ store.OwnerKey, recover func(context.Context) error) (context.Context, func(), error) {
	if !n.has {
		n.has = true
		return ctx, func() {}, recover(ctx)
	}
	return ctx, func() {}, nil
}

type arriving func(Item)

func (a arriving) Push(it Item) { a(it) }
