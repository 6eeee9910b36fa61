package crashtest

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/flynnhost/flynn/host/admin/backup"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// backed is a backup, with the messages that the host had taken over before it was begun, by whether they were answered.
type backed struct {
	path     string
	messages map[string]bool
}

// takenOver returns the messages that the host has taken over, by whether they are answered.
func (l *journal) takenOver() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]bool{}
	for id, m := range l.messages {
		if m.acked {
			all[strconv.Itoa(id)] = m.answered > 0
		}
	}
	return all
}

// TestCrashBackups makes backups while people talk and the host is killed, often in the middle of one. Each can be restored, and has every message
// that the host had taken over before.
func TestCrashBackups(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	x := newTrial(t, hosttest.Build(t), false, false, "", "")
	getenv := func(string) string { return "" }
	c, err := config.LoadBeside(filepath.Join(x.program.Dir, "flynn.toml"), getenv)
	if err != nil {
		t.Fatal(err)
	}
	var all []backed
	folder := t.TempDir()
	x.run(max(4, *kills/3), func(x *trial) {
		b := backed{messages: x.journal.takenOver()}
		made := make(chan error, 1)
		go func() {
			m, err := backup.Make(context.WithoutCancel(t.Context()), c, getenv, filepath.Join(folder, fmt.Sprint(len(all))), []age.Recipient{key.Recipient()}, time.Now())
			b.path = m.Path
			made <- err
		}()
		<-time.After(time.Duration(x.rng.Int64N(int64(60 * time.Millisecond))))
		x.killHost()
		if err := <-made; err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	})
	messages := 0
	for i, b := range all {
		r, err := backup.Restore(t.Context(), b.path, []age.Identity{key}, backup.Target{Config: filepath.Join(t.TempDir(), "flynn.toml"), Store: filepath.Join(t.TempDir(), "data")})
		if err != nil {
			t.Fatal(err)
		}
		has := inboxOf(t, filepath.Join(r.Store, "flynn.db"))
		for id, answered := range b.messages {
			if state, ok := has[id]; !ok || answered && state == "new" {
				t.Errorf("backup %d: message %s, answered %t, is in state %q", i, id, answered, state)
			}
		}
		messages += len(b.messages)
	}
	if messages == 0 {
		t.Error("no backup was made after a message")
	}
	t.Logf("%d backups with %d messages", len(all), messages)
}

// inboxOf returns the states of the messages in a store.
func inboxOf(t *testing.T, path string) map[string]string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT event_id, state FROM inbox")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	states := map[string]string{}
	for rows.Next() {
		var id, state string
		if err := rows.Scan(&id, &state); err != nil {
			t.Fatal(err)
		}
		states[id] = state
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return states
}
