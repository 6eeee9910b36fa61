package discordtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/plugins/discord/discordtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// ask sends a request as the bot and reads the answer.
func ask(t *testing.T, s *discordtest.Server, method, path, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.API()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bot "+s.Token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer answer.Body.Close()
	data, _ := io.ReadAll(answer.Body)
	out := map[string]any{}
	if bytes.HasPrefix(data, []byte("{")) {
		if err := json.Unmarshal(data, &out); err != nil {
			t.Fatal(err)
		}
	}
	out["raw"], out["retry-after"] = string(data), answer.Header.Get("Retry-After")
	return answer.StatusCode, out
}

func TestREST(t *testing.T) {
	s := discordtest.Start(t)
	ann := s.Person("Ann")
	guild, _ := s.Guild(ann)
	room := s.Channel(guild, "")
	theirs := s.Say(room, ann, "hello")
	messages := "/channels/" + room + "/messages"
	_, mine := ask(t, s, "POST", messages, `{"content":"mine"}`)
	own := messages + "/" + mine["id"].(string)
	for _, c := range []struct {
		name, method, path, body string
		want                     int
	}{
		{"gateway", "GET", "/gateway/bot", "", 200},
		{"self", "GET", "/users/@me", "", 200},
		{"channel", "GET", "/channels/" + room, "", 200},
		{"no channel", "GET", "/channels/1", "", 404},
		{"messages", "GET", messages + "?limit=5", "", 200},
		{"too many messages", "GET", messages + "?limit=101", "", 400},
		{"message", "GET", messages + "/" + theirs, "", 200},
		{"post", "POST", messages, `{"content":"x"}`, 200},
		{"post nothing", "POST", messages, `{"content":""}`, 400},
		{"post too much", "POST", messages, `{"content":"` + strings.Repeat("x", 2001) + `"}`, 400},
		{"a long nonce", "POST", messages, `{"content":"x","nonce":"` + strings.Repeat("x", 26) + `"}`, 400},
		{"six buttons in a row", "POST", messages, `{"content":"x","components":[{"type":1,"components":[` + strings.Repeat(`{"type":2,"style":1,"custom_id":"a"},`, 5) + `{"type":2}]}]}`, 400},
		{"an answer to nothing", "POST", messages, `{"content":"x","message_reference":{"message_id":"1"}}`, 400},
		{"an answer to what may be gone", "POST", messages, `{"content":"x","message_reference":{"message_id":"1","fail_if_not_exists":false}}`, 200},
		{"edit", "PATCH", own, `{"content":"y"}`, 200},
		{"edit of another's", "PATCH", messages + "/" + theirs, `{"content":"y"}`, 403},
		{"react", "PUT", own + "/reactions/%F0%9F%91%8D/@me", "", 204},
		{"react no more", "DELETE", own + "/reactions/%F0%9F%91%8D/@me", "", 204},
		{"typing", "POST", "/channels/" + room + "/typing", "", 204},
		{"commands", "PUT", "/applications/" + s.Self.ID + "/commands", `[{"name":"a"}]`, 200},
		{"commands of another", "PUT", "/applications/1/commands", `[]`, 400},
		{"no interaction", "POST", "/interactions/1/x/callback", `{"type":5}`, 404},
		{"delete", "DELETE", own, "", 204},
		{"delete again", "DELETE", own, "", 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, out := ask(t, s, c.method, c.path, c.body); got != c.want {
				t.Errorf("answers %d: %v", got, out["raw"])
			}
		})
	}
	r, _ := http.NewRequestWithContext(t.Context(), "GET", s.API()+"/users/@me", nil)
	r.Header.Set("Authorization", "Bot another")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body.Close(); answer.StatusCode != 401 {
		t.Errorf("another token is answered %d", answer.StatusCode)
	}
}

func TestNonces(t *testing.T) {
	s := discordtest.Start(t)
	private := s.Channel("", "")
	path := "/channels/" + private + "/messages"
	_, first := ask(t, s, "POST", path, `{"content":"a","nonce":"n","enforce_nonce":true}`)
	_, again := ask(t, s, "POST", path, `{"content":"b","nonce":"n","enforce_nonce":true}`)
	if first["id"] != again["id"] || len(s.Messages(private)) != 1 {
		t.Errorf("%v and %v", first, again)
	}
	ask(t, s, "POST", path, `{"content":"a","nonce":"n"}`)
	if len(s.Messages(private)) != 2 {
		t.Error("a nonce that is not enforced was")
	}
	if _, out := ask(t, s, "GET", path, ""); strings.Contains(out["raw"].(string), `"nonce"`) {
		t.Errorf("nonces are kept: %v", out["raw"])
	}
}

func TestPages(t *testing.T) {
	s := discordtest.Start(t)
	ann, private := s.Person("Ann"), s.Channel("", "")
	var ids []string
	for range 5 {
		ids = append(ids, s.Say(private, ann, "x"))
	}
	list := func(query string) (got []string) {
		_, out := ask(t, s, "GET", "/channels/"+private+"/messages?"+query, "")
		var page []struct{ ID string }
		if err := json.Unmarshal([]byte(out["raw"].(string)), &page); err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			got = append(got, m.ID)
		}
		return got
	}
	if got := list("limit=2"); len(got) != 2 || got[0] != ids[4] {
		t.Errorf("the latest are %v of %v", got, ids)
	}
	if got := list("limit=2&after=" + ids[0]); len(got) != 2 || got[0] != ids[2] || got[1] != ids[1] {
		t.Errorf("right behind the first are %v of %v", got, ids)
	}
	if got := list("limit=2&before=" + ids[4]); len(got) != 2 || got[0] != ids[3] {
		t.Errorf("before the last are %v of %v", got, ids)
	}
}

func TestFaults(t *testing.T) {
	s := discordtest.Start(t)
	private := s.Channel("", "")
	path, post := "/channels/"+private+"/messages", `{"content":"x"}`
	s.Fail(discordtest.Fault{Method: "POST", Path: "/messages", Status: 429, RetryAfter: 1.5, Global: true})
	if got, out := ask(t, s, "POST", path, post); got != 429 || out["retry_after"] != 1.5 || out["global"] != true || out["retry-after"] != "2" {
		t.Errorf("limit is %d, %v", got, out)
	}
	s.Fail(discordtest.Fault{Method: "POST", Path: "/messages", CutBefore: true})
	if got, _ := ask(t, s, "POST", path, post); got != 0 || len(s.Messages(private)) != 0 {
		t.Errorf("cut before: %d, %v", got, s.Messages(private))
	}
	s.Fail(discordtest.Fault{Method: "POST", Path: "/messages", CutAfter: true})
	if got, _ := ask(t, s, "POST", path, post); got != 0 || len(s.Messages(private)) != 1 {
		t.Errorf("cut after: %d, %v", got, s.Messages(private))
	}
	if got, _ := ask(t, s, "POST", path, post); got != 200 {
		t.Errorf("a fault is played again: %d", got)
	}
}

func TestFiles(t *testing.T) {
	s := discordtest.Start(t)
	private := s.Channel("", "")
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	_ = w.WriteField("payload_json", `{"content":"look"}`)
	part, _ := w.CreateFormFile("files[0]", "a.txt")
	_, _ = part.Write([]byte("hello"))
	_ = w.Close()
	r, _ := http.NewRequestWithContext(t.Context(), "POST", s.API()+"/channels/"+private+"/messages", &form)
	r.Header.Set("Authorization", "Bot "+s.Token)
	r.Header.Set("Content-Type", w.FormDataContentType())
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	m := s.Messages(private)[0]
	if len(m.Attachments) != 1 || string(s.Body(m.Attachments[0])) != "hello" {
		t.Fatalf("message is %+v", m)
	}
	get := func() int {
		answer, err := http.Get(m.Attachments[0].URL)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	if got := get(); got != 200 {
		t.Errorf("address answers %d", got)
	}
	if s.Expire(); get() != 404 {
		t.Error("the address has not expired")
	}
}

// bot is a connection of the gateway.
type bot struct {
	t    *testing.T
	conn *websocket.Conn
}

func dial(t *testing.T, s *discordtest.Server) *bot {
	t.Helper()
	_, out := ask(t, s, "GET", "/gateway/bot", "")
	conn, _, err := websocket.Dial(t.Context(), out["url"].(string)+"?v=10&encoding=json", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	b := &bot{t, conn}
	if hello := b.read(); hello["op"] != 10.0 {
		t.Fatalf("begins with %v", hello)
	}
	return b
}

func (b *bot) read() map[string]any {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	_, data, err := b.conn.Read(ctx)
	if err != nil {
		return map[string]any{"closed": int(websocket.CloseStatus(err))}
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bot) write(text string) {
	b.t.Helper()
	if err := b.conn.Write(b.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		b.t.Fatal(err)
	}
}

func TestGateway(t *testing.T) {
	s := discordtest.Start(t)
	ann, private := s.Person("Ann"), s.Channel("", "")
	b := dial(t, s)
	b.write(`{"op":2,"d":{"token":"` + s.Token + `","intents":1}}`)
	ready := b.read()
	if ready["t"] != "READY" || ready["s"] != 1.0 {
		t.Fatalf("answers %v", ready)
	}
	id := ready["d"].(map[string]any)["session_id"].(string)
	b.write(`{"op":1,"d":1}`)
	if got := b.read(); got["op"] != 11.0 {
		t.Errorf("heartbeat is answered by %v", got)
	}
	s.Say(private, ann, "one")
	if got := b.read(); got["t"] != "MESSAGE_CREATE" || got["s"] != 2.0 {
		t.Errorf("message is %v", got)
	}
	s.Reconnect()
	if got := b.read(); got["op"] != 7.0 {
		t.Errorf("reconnect is %v", got)
	}
	s.Hangup(4009)
	if got := b.read(); got["closed"] != 4009 {
		t.Errorf("close is %v", got)
	}
	s.Say(private, ann, "two")
	b = dial(t, s)
	b.write(`{"op":6,"d":{"token":"` + s.Token + `","session_id":"` + id + `","seq":2}}`)
	if a, r := b.read(), b.read(); a["t"] != "MESSAGE_CREATE" || a["s"] != 3.0 || r["t"] != "RESUMED" {
		t.Errorf("resumed with %v and %v", a, r)
	}
	s.Invalidate()
	if got := b.read(); got["op"] != 9.0 || got["d"] != false {
		t.Errorf("invalid session is %v", got)
	}
	b = dial(t, s)
	b.write(`{"op":6,"d":{"token":"` + s.Token + `","session_id":"` + id + `","seq":3}}`)
	if got := b.read(); got["op"] != 9.0 {
		t.Errorf("resume of a session that is gone is answered by %v", got)
	}
	for name, token := range map[string]string{"a wrong token": "x", "intents": s.Token} {
		want := 4004
		if name == "intents" {
			s.Refuse(4014)
			want = 4014
		}
		b = dial(t, s)
		b.write(`{"op":2,"d":{"token":"` + token + `"}}`)
		if got := b.read(); got["closed"] != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
