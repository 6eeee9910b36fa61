package sqlstore_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// TestSentIsFoundBeforeItIsSettled: a reaction comes as soon as people see a message, which may be before that is committed.
func TestSentIsFoundBeforeItIsSettled(t *testing.T) {
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	where := message.Conversation{ID: "#c", Kind: message.Group}
	for n := range 20 {
		id := store.NewID(time.Now())
		reply := message.Reply{Key: id, Channel: "irc", Conversation: where, Text: "hello"}
		turn := turnlog.Turn{ID: id, Session: "irc:#c:helper", Channel: "irc", Conversation: where, State: turnlog.TurnDone}
		if err := s.CommitTurn(t.Context(), turnlog.Commit{Turn: turn, Replies: []message.Reply{reply}}); err != nil {
			t.Fatal(err)
		}
		settled := make(chan error, 1)
		go func() {
			settled <- s.SettleOutbox(t.Context(), mailbox.OutboxRow{Reply: reply, State: mailbox.OutboxSent, PlatformIDs: []string{fmt.Sprint(n)}})
		}()
		for !s.Waits() && len(settled) == 0 {
			runtime.Gosched()
		}
		if _, err := s.FindSent(t.Context(), "irc", "#c", fmt.Sprint(n)); err != nil {
			t.Errorf("message %d: %v", n, err)
		}
		if err := <-settled; err != nil {
			t.Fatal(err)
		}
	}
}
