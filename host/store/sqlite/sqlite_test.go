package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	template := t.TempDir() // a property test opens many stores: their schema is made once
	made, err := Open(t.Context(), template)
	if err != nil {
		t.Fatal(err)
	}
	made.Close()
	empty, err := os.ReadFile(filepath.Join(template, "flynn.db"))
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, func(t *testing.T) storetest.Opener {
		dir := t.TempDir()
		var last *Store
		t.Cleanup(func() { last.Close() })
		return func() store.Store {
			if last != nil {
				if err := last.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s, err := Open(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			last = s
			return s
		}
	}, func(t *testing.T, c storetest.Cleaner) storetest.Joiner {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "flynn.db"), empty, 0o600); err != nil {
			t.Fatal(err)
		}
		return func(host string) store.Store {
			s, err := Join(t.Context(), dir, host)
			if err != nil {
				t.Fatal(err)
			}
			c.Cleanup(func() { s.Close() })
			return s
		}
	})
}

func TestSecondHostIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "another flynn is using it") {
		t.Fatalf("second open: %v", err)
	}
}

// A flynn that was killed while it started a program leaves its lock to that for a moment.
func TestLockOfAKilledHost(t *testing.T) {
	dir := t.TempDir()
	left, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { left.Close() })
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func TestNewerSchemaIsRefused(t *testing.T) {
	for _, c := range []struct{ name, change, want string }{
		{"by a release", "UPDATE written_by SET version = 'v9.8.7'", `was written by flynn "v9.8.7" and has schema version 99; this is flynn "`},
		{"by rude words", "UPDATE written_by SET version = 'v9\x1b[31m' || char(10)", `was written by flynn "v9\x1b[31m\n" and`},
		{"by one that says it elsewhere", "DROP TABLE written_by", "was written by a newer flynn and has schema version 99"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := Open(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.writer.conn.ExecContext(t.Context(), c.change+"; PRAGMA user_version = 99"); err != nil {
				t.Fatal(err)
			}
			s.Close()
			_, err = Open(t.Context(), dir)
			_, readErr := OpenReader(t.Context(), dir)
			for _, err := range []error{err, readErr} {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), fmt.Sprintf("up to %d: install the newer flynn again", NewestSchema())) {
					t.Errorf("open: %v", err)
				}
			}
		})
	}
}

func TestWriteAfterCloseFails(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := s.SetInbox(t.Context(), 1, mailbox.InboxDone, ""); err == nil {
		t.Fatal("a write after close succeeded")
	}
}

func TestDurabilitySettings(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "fullfsync": "1", "checkpoint_fullfsync": "1"} {
		var got string
		if err := s.writer.conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", pragma, got, err, want)
		}
	}
}

// TestAFailedWriteIsRolledBackAlone puts an op that fails half way into one group with others.
func TestAFailedWriteIsRolledBackAlone(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	note := func(key string, failure error) *op {
		return &op{done: make(chan error, 1), do: func(w *writer) error {
			if err := w.exec("INSERT INTO notes (agent, person, key, text, sender, turn, labels, updated) VALUES ('a', '', ?, 't', 's', '', '[]', 0)", key); err != nil {
				return err
			}
			return failure
		}}
	}
	broken := errors.New("half way")
	for _, c := range []struct {
		name  string
		fails []bool
	}{
		{"none", []bool{false, false, false}}, {"first", []bool{true, false, false}}, {"middle", []bool{false, true, false}},
		{"last", []bool{false, false, true}}, {"two", []bool{true, false, true}}, {"all", []bool{true, true, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var group []*op
			for i, fails := range c.fails {
				var err error
				if fails {
					err = broken
				}
				group = append(group, note(fmt.Sprint(c.name, i), err))
			}
			s.writer.waiting.Lock()
			s.writer.ops = append(s.writer.ops, group...) // what waits becomes one group
			s.writer.waiting.Unlock()
			s.writer.wakeUp()
			for i, fails := range c.fails {
				if err := <-group[i].done; fails != errors.Is(err, broken) || !fails && err != nil {
					t.Errorf("op %d: %v", i, err)
				}
				_, err := s.ReadNote(t.Context(), "a", "", fmt.Sprint(c.name, i))
				if fails != errors.Is(err, store.ErrNotFound) {
					t.Errorf("note %d: %v", i, err)
				}
			}
		})
	}
}

// A bug in one write is an error of that one; the next finds no transaction open.
func TestAPanicInAWriteIsItsError(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, ctx := range map[string]context.Context{"committed by the caller": context.Background(), "committed by the writer": t.Context()} {
		err := s.writer.write(ctx, func(*writer) error { panic("a bug") })
		if err == nil || !strings.Contains(err.Error(), "a bug") {
			t.Errorf("%s: error is %v", name, err)
		}
		if err := s.SetScope(ctx, turnlog.Scope{Key: "irc:ann", Epoch: 2}); err != nil {
			t.Errorf("%s: the next write: %v", name, err)
		}
	}
}

// BenchmarkTurn is the store's share of a text turn: accept, commit with reply, mark sent.
func BenchmarkTurn(b *testing.B) {
	for _, sessions := range []int{1, 16} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			s, err := Open(b.Context(), b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			var n atomic.Int64
			b.SetParallelism(sessions)
			b.ResetTimer()
			run := func() {
				if err := storeTurn(b.Context(), s, n.Add(1)); err != nil {
					b.Error(err)
				}
			}
			if sessions == 1 {
				for b.Loop() {
					run()
				}
			} else {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						run()
					}
				})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
		})
	}
}

func storeTurn(ctx context.Context, s *Store, n int64) error {
	where := message.Conversation{ID: fmt.Sprint("#c", n%16), Kind: message.Group}
	row, _, err := s.AppendInbox(ctx, message.Message{
		Channel: "irc", EventID: fmt.Sprint(n), Conversation: where, Sender: message.Sender{ID: "ann"}, Text: "hello there",
	}, mailbox.InboxNew, "")
	if err != nil {
		return err
	}
	id := store.NewID(time.Now())
	reply := message.Reply{Key: id, Channel: "irc", Conversation: where, Text: "You said: hello there"}
	err = s.CommitTurn(ctx, turnlog.Commit{
		Turn: turnlog.Turn{
			ID: id, Session: message.SessionKey("irc:" + where.ID + ":helper"), Agent: "helper", Channel: "irc", Conversation: where, Sender: "irc:ann",
			Inbox: []int64{row.ID}, State: turnlog.TurnDone, Started: time.Now(), Ended: time.Now(),
		},
		Steps: []turnlog.Step{
			{Seq: 0, Kind: turnlog.StepUser, Data: []byte(`{"text":"hello there"}`), At: time.Now()},
			{Seq: 1, Kind: turnlog.StepModel, Data: []byte(`{"text":"You said: hello there"}`), At: time.Now()},
		},
		Decisions:  []journal.Decision{{At: time.Now(), Kind: "route", Policy: "table", Answer: "helper"}},
		Replies:    []message.Reply{reply},
		InboxState: mailbox.InboxDone,
	})
	if err != nil {
		return err
	}
	return s.SettleOutbox(ctx, mailbox.OutboxRow{Reply: reply, State: mailbox.OutboxSent, Attempts: 1, PlatformIDs: []string{"1"}})
}
