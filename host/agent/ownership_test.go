package agent

import (
	"errors"
	"slices"
	"testing"

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

type arriving func(Item)

func (a arriving) Push(it Item) { a(it) }
