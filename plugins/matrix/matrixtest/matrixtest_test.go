package matrixtest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// ask makes one request and returns the status and the answer.
func ask(t *testing.T, s *Server, method, path, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+Token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	var out map[string]any
	_ = json.Unmarshal(text, &out)
	return answer.StatusCode, out
}

func TestTransactionsAreRecognised(t *testing.T) {
	s := New(t)
	s.Room("!r:test", "@ann:test")
	s.Next("/send/", Trouble{Status: 429, Code: "M_LIMIT_EXCEEDED"}, Trouble{HangUp: true}, Trouble{HangUp: true, Done: true})
	const path = "/_matrix/client/v3/rooms/!r:test/send/m.room.message/txn1"
	var last map[string]any
	for i, want := range []int{429, 0, 0, 200, 200} {
		status, out := ask(t, s, http.MethodPut, path, `{"body":"x"}`)
		if status != want {
			t.Errorf("request %d: status %d, want %d", i, status, want)
		}
		last = out
	}
	if all := s.Messages(t.Context(), "!r:test", 1); len(all) != 1 || last["event_id"] != all[0].ID {
		t.Errorf("%d messages, last answer %v", len(all), last)
	}
}

func TestSyncLimitsAndMessagesFillTheGap(t *testing.T) {
	s := New(t)
	s.Room("!r:test", "@ann:test")
	for range 25 {
		s.Say("!r:test", "@ann:test", "x", nil)
	}
	_, out := ask(t, s, http.MethodGet, "/_matrix/client/v3/sync?since=0", "")
	room := out["rooms"].(map[string]any)["join"].(map[string]any)["!r:test"].(map[string]any)["timeline"].(map[string]any)
	if room["limited"] != true || len(room["events"].([]any)) != 10 || room["prev_batch"] != "16" {
		t.Fatalf("timeline %v", room)
	}
	_, page := ask(t, s, http.MethodGet, "/_matrix/client/v3/rooms/!r:test/messages?dir=b&from=16&to=0", "")
	_, rest := ask(t, s, http.MethodGet, "/_matrix/client/v3/rooms/!r:test/messages?dir=b&from="+page["end"].(string)+"&to=0", "")
	if len(page["chunk"].([]any)) != 10 || len(rest["chunk"].([]any)) != 5 || rest["end"] != nil {
		t.Errorf("pages of %d and %d, end %v", len(page["chunk"].([]any)), len(rest["chunk"].([]any)), rest["end"])
	}
}

func TestStrangersAreRefused(t *testing.T) {
	s := New(t)
	answer, err := http.Get(s.URL() + "/_matrix/client/v3/sync")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d", answer.StatusCode)
	}
	if status, _ := ask(t, s, http.MethodPut, "/_matrix/client/v3/rooms/!other:test/send/m.room.message/t", "{}"); status != http.StatusForbidden {
		t.Errorf("a room that Flynn is not in: %d", status)
	}
}
