package slacktest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fixture(t *testing.T, c Config) *Server {
	t.Helper()
	s := Start(t, c)
	s.AddUser(User{ID: "U1", Name: "ann"})
	s.AddChannel(Channel{ID: "C1", Name: "general"})
	return s
}

// call does one call as a client would.
func call(t *testing.T, s *Server, method, token string, form url.Values) (status int, answer map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+method, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_ = json.NewDecoder(resp.Body).Decode(&answer)
	http.DefaultClient.CloseIdleConnections()
	return resp.StatusCode, answer
}

func TestRefusals(t *testing.T) {
	s := fixture(t, Config{})
	s.AddChannel(Channel{ID: "C2", Outside: true})
	for _, c := range []struct {
		name, method, token string
		form                url.Values
		want                string
	}{
		{"no token", "auth.test", "", nil, "not_authed"},
		{"wrong token", "auth.test", "xoxb-9", nil, "invalid_auth"},
		{"the app's token for the bot's method", "auth.test", AppToken, nil, "not_allowed_token_type"},
		{"the bot's token for the app's method", "apps.connections.open", BotToken, nil, "not_allowed_token_type"},
		{"unknown method", "chat.sing", BotToken, nil, "unknown_method"},
		{"unknown channel", "chat.postMessage", BotToken, url.Values{"channel": {"C9"}, "text": {"x"}}, "channel_not_found"},
		{"no member", "chat.postMessage", BotToken, url.Values{"channel": {"C2"}, "text": {"x"}}, "not_in_channel"},
		{"no text", "chat.postMessage", BotToken, url.Values{"channel": {"C1"}}, "no_text"},
		{"too long", "chat.postMessage", BotToken, url.Values{"channel": {"C1"}, "text": {strings.Repeat("x", 40_001)}}, "msg_too_long"},
		{"a section too long", "chat.postMessage", BotToken, url.Values{"channel": {"C1"}, "text": {"x"},
			"blocks": {`[{"type":"section","text":{"type":"mrkdwn","text":"` + strings.Repeat("x", 3001) + `"}}]`}}, "invalid_blocks"},
		{"two buttons of one id", "chat.postMessage", BotToken, url.Values{"channel": {"C1"}, "text": {"x"},
			"blocks": {`[{"type":"actions","elements":[{"action_id":"a","text":{"text":"x"}},{"action_id":"a","text":{"text":"y"}}]}]`}}, "invalid_blocks"},
		{"no message", "chat.update", BotToken, url.Values{"channel": {"C1"}, "ts": {"1.000001"}, "text": {"x"}}, "message_not_found"},
		{"an emoji instead of its name", "reactions.add", BotToken, url.Values{"channel": {"C1"}, "timestamp": {"1.0"}, "name": {"👍"}}, "message_not_found"},
		{"nobody", "users.info", BotToken, url.Values{"user": {"U9"}}, "user_not_found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, answer := call(t, s, c.method, c.token, c.form)
			if status != http.StatusOK || answer["ok"] != false || answer["error"] != c.want {
				t.Errorf("%d %v", status, answer)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	s := fixture(t, Config{})
	s.Fail("auth.test", Fault{RetryAfter: 3 * time.Second}, Fault{Status: 503}, Fault{Error: "fatal_error"})
	for _, want := range []int{429, 503, 200, 200} {
		if status, _ := call(t, s, "auth.test", BotToken, nil); status != want {
			t.Errorf("status %d, want %d", status, want)
		}
	}
	if s.Calls("auth.test") != 4 {
		t.Errorf("counted %d calls", s.Calls("auth.test"))
	}
}

func TestHistoryAndReplies(t *testing.T) {
	s := fixture(t, Config{})
	root := s.Say("C1", Message{User: "U1", Text: "root"})
	for range 5 {
		s.Say("C1", Message{User: "U1", Text: "reply", ThreadTS: root})
	}
	top := s.Say("C1", Message{User: "U1", Text: "top"})
	texts := func(method string, form url.Values) (out []string, next string) {
		_, answer := call(t, s, method, BotToken, form)
		for _, m := range answer["messages"].([]any) {
			out = append(out, m.(map[string]any)["text"].(string))
		}
		next, _ = answer["response_metadata"].(map[string]any)["next_cursor"].(string)
		return out, next
	}
	if got, _ := texts("conversations.history", url.Values{"channel": {"C1"}}); strings.Join(got, " ") != "top root" {
		t.Errorf("history %q", got)
	}
	if got, _ := texts("conversations.history", url.Values{"channel": {"C1"}, "oldest": {root}}); strings.Join(got, " ") != "top" {
		t.Errorf("history after the first %q", got)
	}
	got, next := texts("conversations.replies", url.Values{"channel": {"C1"}, "ts": {root}, "limit": {"4"}})
	if strings.Join(got, " ") != "root reply reply reply" || next == "" {
		t.Errorf("replies %q, next %q", got, next)
	}
	if got, next := texts("conversations.replies", url.Values{"channel": {"C1"}, "ts": {root}, "limit": {"4"}, "cursor": {next}}); len(got) != 2 || next != "" {
		t.Errorf("second page %q, next %q", got, next)
	}
	if top <= root {
		t.Errorf("%s after %s", top, root)
	}
}

func TestMetadataIsShownOnDemand(t *testing.T) {
	s := fixture(t, Config{})
	call(t, s, "chat.postMessage", BotToken, url.Values{"channel": {"C1"}, "text": {"x"}, "metadata": {`{"event_type":"e","event_payload":{"key":"k"}}`}})
	for ask, want := range map[string]bool{"": false, "true": true} {
		_, answer := call(t, s, "conversations.history", BotToken, url.Values{"channel": {"C1"}, "include_all_metadata": {ask}})
		_, has := answer["messages"].([]any)[0].(map[string]any)["metadata"]
		if has != want {
			t.Errorf("include_all_metadata=%q: metadata %v", ask, has)
		}
	}
}

// client is a Socket Mode client that reads envelopes.
type client struct {
	t    *testing.T
	conn *websocket.Conn
}

func connect(t *testing.T, s *Server) *client {
	t.Helper()
	_, answer := call(t, s, "apps.connections.open", AppToken, nil)
	conn, _, err := websocket.Dial(t.Context(), answer["url"].(string), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	c := &client{t, conn}
	if hello := c.read(); hello["type"] != "hello" {
		t.Fatalf("greeted with %v", hello)
	}
	return c
}

func (c *client) read() map[string]any {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	_, text, err := c.conn.Read(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	var e map[string]any
	if err := json.Unmarshal(text, &e); err != nil {
		c.t.Fatal(err)
	}
	return e
}

func (c *client) ack(e map[string]any) {
	c.t.Helper()
	text, _ := json.Marshal(map[string]any{"envelope_id": e["envelope_id"]})
	if err := c.conn.Write(c.t.Context(), websocket.MessageText, text); err != nil {
		c.t.Fatal(err)
	}
}

func TestEnvelopesComeAgainUntilTheyAreAcked(t *testing.T) {
	s := fixture(t, Config{RedeliverAfter: 20 * time.Millisecond})
	c := connect(t, s)
	s.WaitConnections(t, 1, 1)
	s.Say("C1", Message{User: "U1", Text: "hello"})
	first := c.read()
	second := c.read()
	if first["retry_attempt"] != nil || second["retry_attempt"] != 1.0 || second["retry_reason"] != "timeout" || first["envelope_id"] == second["envelope_id"] {
		t.Errorf("first %v\nsecond %v", first, second)
	}
	id := func(e map[string]any) any { return e["payload"].(map[string]any)["event_id"] }
	if id(first) != id(second) {
		t.Error("the event has another id")
	}
	c.ack(second)
	s.WaitAcked(t)
}

func TestEnvelopesAreGivenUp(t *testing.T) {
	s := fixture(t, Config{RedeliverAfter: 5 * time.Millisecond})
	s.Say("C1", Message{User: "U1", Text: "nobody listens"})
	s.WaitLost(t)
	if e := s.Events()[0]; !e.Lost || len(e.Deliveries) != 4 {
		t.Errorf("event %+v", e)
	}
}

func TestAReplacedConnectionGetsNothingNew(t *testing.T) {
	s := fixture(t, Config{})
	old := connect(t, s)
	s.WaitConnections(t, 1, 1)
	s.Refresh()
	if e := old.read(); e["type"] != "disconnect" || e["reason"] != "refresh_requested" {
		t.Fatalf("read %v", e)
	}
	next := connect(t, s)
	s.WaitConnections(t, 2, 2)
	s.Say("C1", Message{User: "U1", Text: "hello"})
	next.ack(next.read())
	s.WaitAcked(t)
	s.CloseOld()
	s.WaitConnections(t, 1, 2)
}

func TestUploadAndDownload(t *testing.T) {
	s := fixture(t, Config{})
	_, ticket := call(t, s, "files.getUploadURLExternal", BotToken, url.Values{"filename": {"a.txt"}, "length": {"3"}})
	for body, want := range map[string]int{"too much": 400, "abc": 200} {
		resp, err := http.Post(ticket["upload_url"].(string), "application/octet-stream", bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("upload of %q: %s", body, resp.Status)
		}
	}
	files := `[{"id":"` + ticket["file_id"].(string) + `"}]`
	for _, want := range []bool{true, false} { // a file is completed once
		if _, answer := call(t, s, "files.completeUploadExternal", BotToken, url.Values{"files": {files}, "channel_id": {"C1"}}); answer["ok"] != want {
			t.Errorf("completed: %v", answer)
		}
	}
	_, info := call(t, s, "files.info", BotToken, url.Values{"file": {ticket["file_id"].(string)}})
	address := info["file"].(map[string]any)["url_private_download"].(string)
	for token, want := range map[string]string{BotToken: "abc", "": "Sign in"} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.Contains(string(body), want) {
			t.Errorf("with token %q: %q", token, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
