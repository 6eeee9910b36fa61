package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// TestOlderStoresCanBeSearched: the store of an older Flynn gets the same rows as those that triggers write, and deletions leave none.
func TestOlderStoresCanBeSearched(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first := ""
	for i, c := range [][3]string{{"", "Wo ist das Café?", "Es heißt \\\"R\\\" \\u0000 <b>Cafe</b>."}, {"", "my cafe", "noted"}, {"1", "delegated cafe", "unseen"}, {"", strings.Repeat("x", 64<<10), ""}} {
		id, now := fmt.Sprintf("%026d", i), time.Unix(1_700_000_000, 0)
		if c[0] != "" {
			c[0] = first
		}
		first = id
		err := s.CommitTurn(t.Context(), turnlog.Commit{
			Turn: turnlog.Turn{
				ID: id, Session: "web:a:main", Agent: "main", Channel: "web", Conversation: message.Conversation{ID: "a", Kind: message.DM}, Sender: "web:owner",
				State: turnlog.TurnDone, Started: now, Ended: now, Parent: c[0], ParentCall: id,
			},
			Steps: []turnlog.Step{
				{Kind: turnlog.StepUser, Data: fmt.Appendf(nil, `{"said":[{"event":"e%s","text":"%s"}]}`, id, c[1]), At: now},
				{Seq: 1, Kind: turnlog.StepModel, Data: fmt.Appendf(nil, `{"message":{"role":"assistant","text":"%s"}}`, c[2]), At: now},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	script, _ := migrations.ReadFile("migrations/0023_said.sql")
	_, fill, _ := strings.Cut(string(script), "INSERT INTO said (turn, seq, who, key, at, text)\n  SELECT turn,")
	fill, _, _ = strings.Cut(fill, ";")
	rows := func() []string {
		all, err := texts(t, s, "SELECT turn || seq || who || key || at || substr(text, 1, 100) FROM said ORDER BY turn, seq")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := rows()
	err = s.Write(t.Context(), func(w sqlstore.Session) error {
		return errors.Join(w.Exec("DELETE FROM said"), w.Exec("INSERT INTO said (turn, seq, who, key, at, text) SELECT turn,"+fill),
			w.Exec("INSERT INTO said_text (rowid, text) SELECT id, text FROM said"))
	})
	if after := rows(); err != nil || len(before) < 4 || !slices.Equal(before, after) {
		t.Errorf("%v: filled %q, want %q", err, after, before)
	}
	if err := s.DeleteSession(t.Context(), turnlog.Deletion{Key: "web:a:main", By: "web:owner", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if left := rows(); len(left) != 0 {
		t.Errorf("after the deletion there are %q", left)
	}
}

// texts returns the only column of a query.
func texts(t *testing.T, s *Store, query string) (all []string, err error) {
	t.Helper()
	rows, err := s.read.QueryContext(t.Context(), query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}
