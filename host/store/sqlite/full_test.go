package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store/storetest"
)

// TestAFullDisk fills the database in the middle of groups of writes. Acknowledged writes are there, refused ones are not, and
// the store continues to work once there is room.
func TestAFullDisk(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	pages := func(n int) {
		t.Helper()
		// On the writer's connection, while nothing is written.
		if _, err := s.session.conn.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", n)); err != nil {
			t.Fatal(err)
		}
	}
	pages(120)
	text := strings.Repeat("x", 3000)
	type outcome struct {
		event string
		err   error
	}
	outcomes := make(chan outcome)
	const writers, each = 8, 40
	for w := range writers {
		go func() { // ends with its last write
			for i := range each {
				event := fmt.Sprintf("%d-%d", w, i)
				body := text
				if i%2 == 1 {
					body = "small" // fits where a large one does not
				}
				_, _, err := s.AppendInbox(t.Context(), message.Message{
					Channel: "irc", EventID: event, Text: body, Sender: message.Sender{ID: "ann"}, Conversation: message.Conversation{ID: "#c"},
				}, mailbox.InboxNew, "")
				outcomes <- outcome{event, err}
			}
		}()
	}
	acked, refused := map[string]bool{}, 0
	for range writers * each {
		if o := <-outcomes; o.err == nil {
			acked[o.event] = true
		} else {
			refused++
		}
	}
	if refused == 0 || len(acked) == 0 {
		t.Fatalf("%d acked, %d refused: the disk was not full in the middle", len(acked), refused)
	}
	pages(1 << 20)
	if err := storetest.Turn(t.Context(), s, 1); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows, err := s.PendingInbox(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if !acked[r.Message.EventID] {
			t.Errorf("%s is there and was refused", r.Message.EventID)
		}
		delete(acked, r.Message.EventID)
	}
	for event := range acked {
		t.Errorf("%s was acked and is not there", event)
	}
}
