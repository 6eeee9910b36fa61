package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/channel/mailbox"
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
			if _, err := s.session.conn.ExecContext(t.Context(), c.change+"; PRAGMA user_version = 99"); err != nil {
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
		if err := s.session.conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", pragma, got, err, want)
		}
	}
}
