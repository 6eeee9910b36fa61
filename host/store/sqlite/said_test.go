package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// saying returns the commit of a turn in which a person says texts and an agent answers. They are written as between quotes in JSON.
func saying(id, conversation, parent string, said []string, answer string) turnlog.Commit {
	now := time.Unix(1_700_000_000, 0)
	var messages []string
	for i, text := range said {
		messages = append(messages, fmt.Sprintf(`{"event":"e%s.%d","text":"%s"}`, id, i, text))
	}
	return turnlog.Commit{
		Turn: turnlog.Turn{
			ID: id, Session: message.SessionKey("web:" + conversation + ":main"), Agent: "main", Channel: "web", Conversation: message.Conversation{ID: conversation, Kind: message.DM},
			Sender: "web:owner", State: turnlog.TurnDone, Started: now, Ended: now, Parent: parent, ParentCall: id,
		},
		Steps: []turnlog.Step{
			{Kind: turnlog.StepUser, Data: fmt.Appendf(nil, `{"said":[%s]}`, strings.Join(messages, ",")), At: now},
			{Seq: 1, Kind: turnlog.StepModel, Data: fmt.Appendf(nil, `{"message":{"role":"assistant","text":"%s"}}`, answer), At: now},
		},
	}
}

// TestOlderStoresCanBeSearched: the store of an older Flynn gets the same rows as those that triggers write, and deletions leave none.
func TestOlderStoresCanBeSearched(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first := ""
	for i, c := range [][3]string{{"", "Wo ist das Café?", "Es heißt \\\"R\\\" \\u0000 <b>Cafe</b>."}, {"", "my cafe", "noted"}, {"1", "delegated cafe", "unseen"}, {"", strings.Repeat("x", 64<<10), ""}} {
		id := fmt.Sprintf("%026d", i)
		if c[0] != "" {
			c[0] = first
		}
		first = id
		err := s.CommitTurn(t.Context(), saying(id, "a", c[0], []string{c[1]}, c[2]))
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

// Texts are found, and deleted ones are not, whether the index was written before or after, and after restarts.
func TestTheIndexFollowsLater(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	turns := 0
	rapid.Check(t, func(rt *rapid.T) {
		said := map[string]int{} // by conversation
		do := func(what string, err error) {
			if err != nil {
				rt.Fatalf("%s: %v", what, err)
			}
		}
		forget := func(conversation string) {
			do("delete", s.DeleteSession(t.Context(), turnlog.Deletion{Key: message.SessionKey("web:" + conversation + ":main"), By: "web:owner", At: time.Now()}))
			delete(said, conversation)
		}
		conversation := rapid.SampledFrom([]string{"a", "b", "c"})
		search := func() {
			for _, c := range []string{"a", "b", "c"} {
				hits, err := s.SearchSaid(t.Context(), turnlog.Words{Text: "in" + c, Limit: 1 << 20})
				do("search", err)
				if len(hits) != said[c] {
					rt.Fatalf("%d texts of %s are found, %d were said", len(hits), c, said[c])
				}
			}
			do("check the index", s.Write(t.Context(), func(w sqlstore.Session) error {
				return w.Exec("INSERT INTO said_text (said_text, rank) VALUES ('integrity-check', 1)") // compares it with the table
			}))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"say": func(rt *rapid.T) {
				c := conversation.Draw(rt, "conversation")
				n := rapid.SampledFrom([]int{1, 2, sqlstore.IndexTogether / 2, sqlstore.IndexTogether + 1}).Draw(rt, "texts")
				turns++
				do("say", s.CommitTurn(t.Context(), saying(fmt.Sprintf("%026d", turns), c, "", slices.Repeat([]string{"in" + c}, n), "")))
				said[c] += n
			},
			"delete": func(rt *rapid.T) {
				c := conversation.Draw(rt, "conversation")
				if said[c] > 0 {
					forget(c)
				}
			},
			"search": func(*rapid.T) { search() },
			"reopen": func(rt *rapid.T) {
				if rapid.IntRange(0, 4).Draw(rt, "keep open") > 0 {
					return // it takes long
				}
				do("close", s.Close())
				s, err = Open(t.Context(), dir)
				do("open", err)
			},
		})
		search()
		for c := range said {
			forget(c)
		}
	})
}
