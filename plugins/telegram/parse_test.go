package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/channel"
)

func TestIDs(t *testing.T) {
	for id, want := range map[string]place{
		"5": {5, 0}, "-1001234567890": {-1001234567890, 0}, "-1001234567890/7": {-1001234567890, 7},
		"": {}, "0": {}, "x": {}, "5/": {}, "5/0": {}, "5/-1": {}, "5/x": {}, "99999999999999999999": {},
	} {
		got, err := parsePlace(id)
		if got != want || (err == nil) != (want != place{}) || err == nil && got.id() != id {
			t.Errorf("%q: %+v, %v", id, got, err)
		}
	}
	for _, id := range []string{"", "5", "5:", "5:0", ":5", "5:x", "0:5", "5:5:5", "b123"} {
		if _, _, err := parseMessageID(id); err == nil {
			t.Errorf("%q is taken for a message", id)
		}
	}
	if chat, n, err := parseMessageID(messageID(-100, 7)); chat != -100 || n != 7 || err != nil {
		t.Errorf("%d, %d, %v", chat, n, err)
	}
}

func TestMovesAreKept(t *testing.T) {
	dir := t.TempDir()
	m, err := openMoves(channel.Config{StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.add(-5, -1005); err != nil {
		t.Fatal(err)
	}
	if m, err = openMoves(channel.Config{StateDir: dir}); err != nil {
		t.Fatal(err)
	}
	if m.now(-5) != -1005 || m.first(-1005) != -5 || m.now(-6) != -6 || m.first(-6) != -6 {
		t.Errorf("got %+v", m.to)
	}
}

func TestNamed(t *testing.T) {
	for query, want := range map[string]string{
		"@durov": "@durov", " https://t.me/durov ": "@durov", "t.me/durov": "@durov", "-100123": "-100123", "42": "42",
		"durov": "", "@x": "", "@a b c": "", "@" + strings.Repeat("a", 33): "", "0": "", "": "", "@../../x": "",
	} {
		if got := named(query); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}

func TestFileNames(t *testing.T) {
	for name, want := range map[string]string{
		"a.txt": "a.txt", "../../a.txt": "a.txt", `c:\x\a.txt`: "a.txt", "": "file", "..": "file", "/": "file", "a\nb": "a_b", `a"b`: "a_b",
		strings.Repeat("ä", 80) + ".txt": strings.Repeat("ä", 56) + ".txt",
	} {
		if got := fileName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// FuzzUpdate feeds whatever a server may send through everything that reads it.
func FuzzUpdate(f *testing.F) {
	for _, seed := range []string{
		`{"update_id":1,"message":{"message_id":1,"date":1,"chat":{"id":-5,"type":"group"},"from":{"id":7},"text":"@flynn_bot /x😀","entities":[{"type":"mention","offset":0,"length":10},{"type":"bot_command","offset":11,"length":99}]}}`,
		`{"update_id":2,"edited_message":{"message_id":1,"edit_date":2,"chat":{"id":5,"type":"private"},"caption":"x","photo":[{"file_id":"a","width":1,"height":1}]}}`,
		`{"update_id":3,"callback_query":{"id":"1","from":{"id":7},"data":"ok","message":{"chat":{"id":5},"message_id":3,"date":0}}}`,
		`{"update_id":4,"callback_query":{"id":"1","from":{"id":7},"data":"ok"}}`,
		`{"update_id":5,"message_reaction":{"chat":{"id":5},"message_id":3,"date":1,"user":{"id":7},"old_reaction":[],"new_reaction":[{"type":"emoji","emoji":"x"},{"type":"paid"}]}}`,
		`{"update_id":6,"message":{"message_id":1,"chat":{"id":5},"migrate_to_chat_id":-1005}}`,
		`{"update_id":7,"channel_post":{"message_id":1,"chat":{"id":-1005,"type":"channel"},"sender_chat":{"id":-1005},"text":"/new@flynn_bot","entities":[{"type":"bot_command","offset":0,"length":14}]}}`,
		`{"update_id":8,"message":{"message_id":1,"chat":{"id":5},"new_chat_members":[{"id":1}],"reply_to_message":{"message_id":1,"chat":{"id":5}}}}`,
		`{"update_id":1e99}`, `{"update_id":"1"}`, `null`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	m, err := openMoves(channel.Config{StateDir: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	p := &plugin{log: slog.New(slog.DiscardHandler), moves: m}
	p.account.Store(&self{id: 42, username: "flynn_bot", private: true})
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, _ = readUpdates(bytes.NewReader(raw))
		u, err := readUpdate(raw)
		if u == nil {
			if err == nil {
				t.Fatal("neither update nor error")
			}
			return
		}
		for _, e := range p.events(u, raw) {
			check(t, e)
		}
	})
}

// check holds an event against what the contract promises.
func check(t *testing.T, e channel.Event) {
	t.Helper()
	if e.ID == "" || e.Conversation.ID == "" || e.Sender.ID == "" || !utf8.ValidString(e.Text) {
		t.Fatalf("malformed: %+v", e)
	}
	for _, n := range e.Entities {
		if n.Offset < 0 || n.Length <= 0 || n.Offset+n.Length > len(e.Text) || !utf8.ValidString(e.Text[n.Offset:n.Offset+n.Length]) {
			t.Fatalf("entity %+v of %q", n, e.Text)
		}
	}
	if len(e.Entities) > maxEntities {
		t.Fatal(fmt.Sprint(len(e.Entities), " entities"))
	}
}
