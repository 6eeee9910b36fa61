package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
)

// before makes a store of the schema before a migration, for statements of the test's own.
func before(t *testing.T, migration string) (dir string, exec func(query string, args ...any)) {
	t.Helper()
	dir = t.TempDir()
	db, err := sql.Open("sqlite", dsn(filepath.Join(dir, "flynn.db"), ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	exec = func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	version := versionWith(migration) - 1
	for _, f := range files[:version] {
		text, err := migrations.ReadFile("migrations/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		exec(string(text))
	}
	exec(fmt.Sprintf("PRAGMA user_version = %d", version))
	return dir, exec
}

// TestPrivateSessionsOfAnOlderFlynnAreTheirOwn updates a store in which private chats have the keys of groups. Private
// messages are found under a key that no group can have and no longer under the old one, and the messages of groups stay where they are.
func TestPrivateSessionsOfAnOlderFlynnAreTheirOwn(t *testing.T) {
	dir, exec := before(t, "0017_private_places.sql")
	n := 0
	say := func(session, channel string, c message.Conversation, sender, agent, parent string) string {
		n++
		id := fmt.Sprintf("t%02d", n)
		scope, _ := json.Marshal(c)
		exec(`INSERT INTO turns (id, session, agent, channel, conversation, place, sender, inbox, state, error, started, ended, parent, parent_call)
			VALUES (?, ?, ?, ?, ?, ?, ?, '[]', 'done', '', ?, ?, ?, ?)`, id, session, agent, channel, c.ID, scope, channel+":"+sender, n, n, parent, parent)
		if parent == "" {
			exec("INSERT INTO sessions (key, agent, turns, last) VALUES (?, ?, 1, ?) ON CONFLICT (key) DO UPDATE SET turns = turns + 1, last = excluded.last",
				session, agent, n)
		}
		return id
	}
	dm := func(id string) message.Conversation { return message.Conversation{ID: id, Kind: message.DM} }
	group := func(id string) message.Conversation { return message.Conversation{ID: id, Kind: message.Group} }

	say("tg:7:main", "tg", dm("7"), "7", "main", "") // t01: a private chat called by its peer
	parent := say("tg:7:main#2", "tg", dm("7"), "7", "main", "")
	child := say("tg:7:main#2/t03", "tg", dm("7"), "7", "coder", parent)
	say("tg:7:main#2/t03/t04", "tg", dm("7"), "7", "main", child)
	say("tg:-5:main", "tg", group("-5"), "7", "main", "")        // t05: a group
	say("wh:v2:main", "wh", dm("v2"), "v2", "main", "")          // t06: what both have said
	say("wh:v2:main", "wh", group("v2"), "bob", "main", "")      // t07
	say("wh/dm:v2:main", "wh", dm("other"), "v2", "main", "")    // t08: another chat of the same person
	say("mail:a/b:c:main", "mail", dm("a/b:c"), "a", "main", "") // t09: each chat by itself
	say("@zoe:main", "wh", dm("zoe"), "zoe", "main", "")         // t10: a link
	say("web:main:main", "web", dm("main"), "owner", "main", "") // t11: at this machine
	say("tg:7:x:main", "tg", group("7:x"), "7", "main", "")      // t12: a group whose key begins like a private one's

	exec("INSERT INTO places (key, epoch, began, why, agent, tier) VALUES ('tg:7', 2, 5, 'asked', 'coder', 'fast'), ('tg:-5', 3, 6, 'asked', '', '')")
	for _, session := range []string{"tg:7:main", "tg:-5:main", "wh:v2:main", "wh/dm:v2:main"} {
		exec("INSERT INTO summaries (session, id, through, turns, text, labels, made_in, tokens, cost, at) VALUES (?, ?, 't00', 1, 'x', '[]', '', 0, 0, 0)", session, session)
		exec("INSERT INTO results (session, id, tool, text, labels, at) VALUES (?, ?, 'web.fetch', 'x', '[]', 0)", session, session)
		exec("INSERT INTO grants (id, agent, tool, open_until, body) VALUES (?, 'main', 'shell.exec', 9, CAST(? AS BLOB))",
			session, fmt.Sprintf(`{"id":%q,"session":%q,"args":{"command":"a <b> \u0026 1.0"}}`, session, session))
	}
	exec(`INSERT INTO approvals (id, state, body) VALUES ('A', 'pending', CAST('{"ID":"A","Turn":"t02","Session":"tg:7:main#2","Args":{"x":1}}' AS BLOB))`)

	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for session, want := range map[message.SessionKey][]string{
		"tg/dm:7:main": {"t01"}, "tg/dm:7:main#2": {"t02"}, "tg/dm:7:main#2/t03": {"t03"}, "tg/dm:7:main#2/t03/t04": {"t04"},
		"tg:-5:main": {"t05"}, "wh/dm:v2:main": {"t06", "t08"}, "wh:v2:main": {"t07"}, "mail/chat:a/b:c:main": {"t09"}, "@zoe:main": {"t10"},
		"web:main:main": {"t11"}, "tg:7:x:main": {"t12"}, "tg:7:main": nil, "tg:7:main#2": nil, "mail:a/b:c:main": nil,
	} {
		turns, err := s.SessionTurns(t.Context(), session)
		var got []string
		for _, turn := range turns {
			got = append(got, turn.ID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q (%v)", session, got, want, err)
		}
	}
	sessions, err := s.Sessions(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]int{}
	for _, v := range sessions {
		counted[string(v.Key)] = v.Turns
	}
	want := map[string]int{
		"tg/dm:7:main": 1, "tg/dm:7:main#2": 1, "tg:-5:main": 1, "wh/dm:v2:main": 2, "wh:v2:main": 1, "mail/chat:a/b:c:main": 1, "@zoe:main": 1,
		"web:main:main": 1, "tg:7:x:main": 1,
	}
	if fmt.Sprint(counted) != fmt.Sprint(want) {
		t.Errorf("sessions %v, want %v", counted, want)
	}
	if p, err := s.Scope(t.Context(), "tg/dm:7"); err != nil || p.Epoch != 2 || p.Agent != "coder" || p.Tier != "fast" {
		t.Errorf("the scope is %+v, %v", p, err)
	}
	for session, kept := range map[message.SessionKey]bool{"tg/dm:7:main": true, "tg:-5:main": true, "wh:v2:main": false, "wh/dm:v2:main": false} {
		if _, err := s.LatestSummary(t.Context(), session); (err == nil) != kept {
			t.Errorf("summary of %s: %v", session, err)
		}
	}
	for _, column := range []string{"results", "grants"} {
		query := "SELECT count(*) FROM results WHERE session = 'wh:v2:main'"
		if column == "grants" {
			query = "SELECT count(*) FROM grants WHERE json_extract(CAST(body AS TEXT), '$.session') = 'wh:v2:main'"
		}
		var n int
		if err := s.read.QueryRow(query).Scan(&n); err != nil || n != 0 {
			t.Errorf("the group has %d of the %s, %v", n, column, err)
		}
	}
	var body string
	if err := s.read.QueryRow("SELECT CAST(body AS TEXT) FROM grants WHERE id = 'tg:7:main'").Scan(&body); err != nil ||
		body != `{"id":"tg:7:main","session":"tg/dm:7:main","args":{"command":"a <b> \u0026 1.0"}}` {
		t.Errorf("the grant is %s, %v", body, err)
	}
	if a, err := s.Approval(t.Context(), "A"); err != nil || a.Session != "tg/dm:7:main#2" || string(a.Args) != `{"x":1}` {
		t.Errorf("the request is %+v, %v", a, err)
	}
	moved, err := s.ListLeftovers(t.Context(), turnlog.LeftMoved)
	var names []string
	for _, l := range moved {
		names = append(names, l.Name)
	}
	if want := []string{`["mail:a/b:c:main","mail/chat:a/b:c:main"]`, `["tg:7:main","tg/dm:7:main"]`, `["wh:v2:main","wh/dm:v2:main"]`}; err != nil || !slices.Equal(names, want) {
		t.Errorf("workspaces to move: %q, %v", names, err)
	}
	if gone, err := s.ListLeftovers(t.Context(), turnlog.LeftContainers); err != nil || len(gone) != 3 {
		t.Errorf("on the engine are %v, %v", gone, err)
	}
}
