package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// TestAnAnswerSaysThatTheMessageWasCut: a message that was cut is answered with a word about it, and others are not.
func TestAnAnswerSaysThatTheMessageWasCut(t *testing.T) {
	s := openStore(t)
	h := newHouse(t, s, nil)
	for _, cut := range []bool{true, false} {
		_, _, err := s.AppendInbox(t.Context(), message.Message{
			Channel: "irc", EventID: store.NewID(time.Now()), Text: "hi", Cut: cut, Sender: message.Sender{ID: "ann"},
			Conversation: message.Conversation{ID: "ann", Kind: message.DM},
		}, mailbox.InboxNew, "")
		if err != nil {
			t.Fatal(err)
		}
		h.work(t.Context())
	}
	got := h.texts()
	if len(got) != 2 || !strings.Contains(got[0], "longer than 64 KiB") || strings.Contains(got[1], "longer than") {
		t.Errorf("replies are %q", got)
	}
}
