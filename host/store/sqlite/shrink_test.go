package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
)

// TestTheFileShrinks: after most of what it holds was deleted, while other writes go on; also a file of a Flynn whose files did not.
func TestTheFileShrinks(t *testing.T) {
	for name, older := range map[string]bool{"new": false, "of an older flynn": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := Open(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			if older {
				pragma(t, s, "PRAGMA auto_vacuum = 0")
				pragma(t, s, "VACUUM")
			}
			rows := make([]journal.Decision, 4000)
			for i := range rows {
				rows[i] = journal.Decision{At: time.Now().AddDate(-2, 0, 0), Kind: "route", Policy: "p", Frame: make([]byte, 3000)}
			}
			if err := s.AddDecisions(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Prune(t.Context(), store.Retention{Decisions: time.Now()}); err != nil {
				t.Fatal(err)
			}
			if older {
				if freed, err := s.Shrink(t.Context()); freed != 0 || err != nil {
					t.Errorf("it gave back %d bytes, %v", freed, err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if s, err = Open(t.Context(), dir); err != nil {
					t.Fatal(err)
				}
			}
			defer s.Close()
			ctx, stop := context.WithCancel(t.Context())
			wrote := make(chan int)
			go func() { // ends with ctx
				n := 0
				for ; ctx.Err() == nil; n++ {
					m := message.Message{Channel: "irc", EventID: store.NewID(time.Now()), Sender: message.Sender{ID: "ann"}}
					if _, _, err := s.AppendInbox(context.Background(), m, mailbox.InboxDone, ""); err != nil {
						t.Error(err)
						break
					}
				}
				wrote <- n
			}()
			freed, err := s.Shrink(t.Context())
			stop()
			if n := <-wrote; n == 0 && !older {
				t.Error("nothing else was written meanwhile")
			}
			if err != nil || freed < 8<<20 && !older {
				t.Errorf("it gave back %d bytes, %v", freed, err)
			}
			pragma(t, s, "PRAGMA wal_checkpoint(TRUNCATE)")
			if info, err := os.Stat(filepath.Join(dir, "flynn.db")); err != nil || info.Size() > 4<<20 {
				t.Errorf("the file has %v bytes, %v", info.Size(), err)
			}
		})
	}
}

func pragma(t *testing.T, s *Store, query string) {
	t.Helper()
	if _, err := s.session.conn.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}
