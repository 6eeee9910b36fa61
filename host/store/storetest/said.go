package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

type talker struct {
	t *testing.T
	store.Store
	n int
}

// say commits a turn, and returns its id.
func (s *talker) say(sender message.SenderKey, conversation, parent, said, answer string) string {
	s.t.Helper()
	s.n++
	id := fmt.Sprintf("%026d", s.n)
	user, _ := jsonform.Marshal(map[string]any{"said": []any{map[string]any{"event": "e" + id, "text": said}}})
	model, _ := jsonform.Marshal(map[string]any{"message": map[string]any{"role": "assistant", "text": answer}})
	now := time.Unix(1_700_000_000, 0)
	err := s.CommitTurn(s.t.Context(), turnlog.Commit{
		Turn: turnlog.Turn{
			ID: id, Session: message.SessionKey("web:" + conversation + ":main"), Agent: "main", Channel: "web",
			Conversation: message.Conversation{ID: conversation, Kind: message.DM}, Sender: sender, State: turnlog.TurnDone, Started: now, Ended: now, Parent: parent, ParentCall: id,
		},
		Steps: []turnlog.Step{{Turn: id, Kind: turnlog.StepUser, Data: user, At: now}, {Turn: id, Seq: 1, Kind: turnlog.StepModel, Data: model, At: now}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

func (s *talker) find(words string, of message.SenderKey) []turnlog.Hit {
	s.t.Helper()
	hits, err := s.SearchSaid(s.t.Context(), turnlog.Words{Text: words, Of: of, Limit: 100})
	if err != nil {
		s.t.Fatalf("search %.40q: %v", words, err)
	}
	return hits
}

func searchSaid(t *testing.T, open Opener) {
	s := &talker{t: t, Store: open()}
	first := s.say("web:owner", "a", "", "Wo ist das Café am Fluß?", "Es heißt \"Riverside\" \u202eBIDI\x00 <b>Cafe</b>.")
	s.say("web:ann", "b", "", "my cafe secret", "noted")
	s.say("web:owner", "a", first, "delegated cafe", "no person sees this cafe")
	s.say("web:owner", "long", "", strings.Repeat("x", 64<<10)+" needle "+strings.Repeat("y ", 200_000), "")

	for words, n := range map[string]int{
		"cafe": 3, "CAFÉ": 3, "caf": 3, "cafe secret": 1, "riverside": 1, "nothing": 0, "needle": 1, "noted": 1,
		`"`: 0, `cafe"`: 3, `cafe" OR "x`: 0, "NEAR(cafe secret)": 0, "-cafe": 3, "text:cafe": 0, "*": 0, "'; DROP TABLE said; --": 0, "^cafe": 3, "(": 0, "cafe AND": 0,
		"\u202e\x00 cafe": 3,
	} {
		if hits := s.find(words, ""); len(hits) != n {
			t.Errorf("%.40q finds %d, want %d: %.300v", words, len(hits), n, hits)
		}
	}
	if hits := s.find("cafe", "web:ann"); len(hits) != 1 || hits[0].Conversation != "b" || hits[0].ByAgent || hits[0].Key == "" {
		t.Errorf("of one sender: %+v", hits)
	}
	if parts := s.find("riverside", "")[0].Parts; len(parts) != 3 || !parts[1].Hit || parts[1].Text != "Riverside" {
		t.Errorf("excerpt: %+v", parts)
	}
	for _, p := range s.find("needle", "")[0].Parts {
		if len(p.Text) > 1<<10+3 {
			t.Errorf("an excerpt has %d bytes", len(p.Text))
		}
	}
	for _, words := range []string{"", "  ", strings.Repeat("w ", 100)} {
		if _, err := s.SearchSaid(t.Context(), turnlog.Words{Text: words, Limit: 1}); err == nil {
			t.Errorf("%.10q: no error", words)
		}
	}
	page, _ := s.SearchSaid(t.Context(), turnlog.Words{Text: "cafe", Limit: 2})
	rest, _ := s.SearchSaid(t.Context(), turnlog.Words{Text: "cafe", Limit: 2, Below: page[1].ID})
	if len(rest) != 1 || rest[0].ID >= page[1].ID {
		t.Errorf("second page: %+v", rest)
	}

	// Deleted texts are not found, and their titles go.
	title := func(conversation string) string {
		got, err := s.Title(t.Context(), "web", conversation)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		return got.Text
	}
	for _, c := range [][3]string{{"a", "made", first}, {"a", "made again", first}, {"b", "chosen", ""}, {"b", "chosen again", ""}, {"b", "made", first}} {
		if err := s.SetTitle(t.Context(), turnlog.Title{Channel: "web", Conversation: c[0], Text: c[1], Turn: c[2]}); err != nil {
			t.Error(err)
		}
	}
	if title("a") != "made" || title("b") != "chosen again" {
		t.Errorf("titles: %q, %q", title("a"), title("b"))
	}
	if err := s.SetTitle(t.Context(), turnlog.Title{Channel: "web", Conversation: "none", Text: "x"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a title of nothing: %v", err)
	}
	for _, key := range []message.SessionKey{"web:a:main", "web:b:main"} {
		if err := s.DeleteSession(t.Context(), turnlog.Deletion{Key: key, By: "web:owner", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if hits := s.find("cafe", ""); len(hits) != 0 || title("a") != "" || title("b") != "" {
		t.Errorf("after the deletion: %+v, %q, %q", hits, title("a"), title("b"))
	}
}
