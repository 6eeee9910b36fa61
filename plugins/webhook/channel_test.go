package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/plugins/webhook/webhooktest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

func start(t *testing.T, s *webhooktest.System) *plugintest.Host {
	t.Helper()
	return plugintest.Start(t, &plugin{}, plugintest.Config{
		Settings: map[string]any{"deliver_url": s.URL(), "path": "in"}, Secrets: map[string]string{"secret": s.Secret},
		Permissions: []string{"webhook"},
	})
}

// request is a signed message.
func request(s *webhooktest.System, id, body string) *http.Request {
	r, err := http.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header = s.Header(id, time.Now(), []byte(body))
	return r
}

func TestMessageIsTakenWhenTheHostHasIt(t *testing.T) {
	s := webhooktest.New(t)
	h := start(t, s)
	h.WaitStatus(channel.StateReady)
	answered := make(chan int, 1)
	go func() {
		r := h.Webhook("in", request(s, "m1", `{"text":"hello","conversation":"c7","kind":"group","sender":{"id":"u1","name":"Ann"},"addressed":false,"sent_at":1700000000.5}`))
		answered <- r.StatusCode
	}()
	e := h.Event()
	select {
	case status := <-answered:
		t.Fatalf("answered with %d before the ack", status)
	default:
	}
	h.Ack()
	if status := <-answered; status != http.StatusAccepted {
		t.Errorf("status %d", status)
	}
	if e.ID != "m1" || e.Text != "hello" || e.Conversation.ID != "c7" || e.Conversation.Kind != channel.Group || e.Sender.ID != "u1" || e.Sender.Name != "Ann" ||
		e.Addressed || e.SentAt.UnixMilli() != 1700000000500 {
		t.Errorf("event %+v", e)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	s := webhooktest.New(t)
	h := start(t, s)
	h.WaitStatus(channel.StateReady)
	const good = `{"text":"hello","sender":{"id":"u1"}}`
	for _, c := range []struct {
		name, body string
		change     func(*http.Request)
		want       int
	}{
		{"a GET", good, func(r *http.Request) { r.Method = http.MethodGet }, http.StatusMethodNotAllowed},
		{"no signature", good, func(r *http.Request) { r.Header.Del("Webhook-Signature") }, http.StatusUnauthorized},
		{"another secret's", good, func(r *http.Request) {
			r.Header.Set("Webhook-Signature", sign([]byte("x"), "m1", r.Header.Get("Webhook-Timestamp"), []byte(good)))
		}, http.StatusUnauthorized},
		{"another body's", good, func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(`{"text":"evil","sender":{"id":"u1"}}`))
		}, http.StatusUnauthorized},
		{"another id's", good, func(r *http.Request) { r.Header.Set("Webhook-Id", "m2") }, http.StatusUnauthorized},
		{"no id", good, func(r *http.Request) { r.Header.Del("Webhook-Id") }, http.StatusUnauthorized},
		{"an old one", good, func(r *http.Request) { r.Header = s.Header("m1", time.Now().Add(-6*time.Minute), []byte(good)) }, http.StatusUnauthorized},
		{"one of the future", good, func(r *http.Request) { r.Header = s.Header("m1", time.Now().Add(6*time.Minute), []byte(good)) }, http.StatusUnauthorized},
		{"no JSON", "hello", nil, http.StatusBadRequest},
		{"two objects", good + good, nil, http.StatusBadRequest},
		{"an unknown key", `{"text":"x","sender":{"id":"u1"},"owner":true}`, nil, http.StatusBadRequest},
		{"no text", `{"sender":{"id":"u1"}}`, nil, http.StatusBadRequest},
		{"no sender", `{"text":"x"}`, nil, http.StatusBadRequest},
		{"an unknown kind", `{"text":"x","sender":{"id":"u1"},"kind":"thread"}`, nil, http.StatusBadRequest},
		{"a sender's id that is too long", `{"text":"x","sender":{"id":"` + strings.Repeat("u", 300) + `"}}`, nil, http.StatusBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(s, "m1", c.body)
			if c.change != nil {
				c.change(r)
			}
			if got := h.Webhook("in", r); got.StatusCode != c.want {
				t.Errorf("status %d, want %d", got.StatusCode, c.want)
			}
		})
	}
}

func TestSignatureOfASenderThatChangesItsSecret(t *testing.T) {
	s := webhooktest.New(t)
	h := start(t, s)
	h.WaitStatus(channel.StateReady)
	r := request(s, "m1", `{"text":"hello","sender":{"id":"u1"}}`)
	r.Header.Set("Webhook-Signature", "v1,AAAA v1a,BBBB "+r.Header.Get("Webhook-Signature"))
	done := make(chan int, 1)
	go func() { done <- h.Webhook("in", r).StatusCode }()
	h.Event()
	h.Ack()
	if got := <-done; got != http.StatusAccepted {
		t.Errorf("status %d", got)
	}
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name    string
		trouble []webhooktest.Trouble
		want    channel.Outcome
		retry   time.Duration
		answers int
	}{
		{"taken", nil, channel.OutcomeSent, 0, 1},
		{"rate limit", []webhooktest.Trouble{{Status: 429, RetryAfter: "7"}}, channel.OutcomeNotSent, 7 * time.Second, 0},
		{"away", []webhooktest.Trouble{{Status: 503}}, channel.OutcomeNotSent, 0, 0},
		{"refused", []webhooktest.Trouble{{Status: 403}}, channel.OutcomeNotSent, 0, 0},
		{"a redirect is not followed", []webhooktest.Trouble{{Status: 302}}, channel.OutcomeNotSent, 0, 0},
		{"broken", []webhooktest.Trouble{{Status: 500}}, channel.OutcomeUnknown, 0, 0},
		{"hung up before", []webhooktest.Trouble{{HangUp: true}}, channel.OutcomeUnknown, 0, 0},
		{"hung up after", []webhooktest.Trouble{{HangUp: true, Taken: true}}, channel.OutcomeUnknown, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := webhooktest.New(t)
			h := start(t, s)
			s.Next(c.trouble...)
			send := channel.Send{Key: "k1", Conversation: channel.Conversation{ID: "c7"}, ReplyTo: "m1", Text: "**hi**", Markdown: true}
			got, err := h.Send(send)
			if got.Outcome != c.want || got.RetryAfter != c.retry || (err == nil) != (c.want == channel.OutcomeSent) {
				t.Fatalf("%+v, %v", got, err)
			}
			if all := s.Answers(canceled(t), 99); len(all) != c.answers {
				t.Fatalf("%d answers, want %d", len(all), c.answers)
			}
			send.PossibleDuplicate = c.want == channel.OutcomeUnknown
			again, err := h.Send(send) // the host tries again, with the same key
			if err != nil || again.Outcome != channel.OutcomeSent && again.Outcome != channel.OutcomeDuplicate {
				t.Fatalf("again: %+v, %v", again, err)
			}
			all := s.Answers(t.Context(), 1)
			if len(all) != 1 || all[0].ID != "k1" || all[0].Conversation != "c7" || all[0].ReplyTo != "m1" || all[0].Text != "**hi**" {
				t.Errorf("answers %+v, want one", all)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	h := plugintest.Start(t, &plugin{}, plugintest.Config{
		Settings: map[string]any{"deliver_url": "http://127.0.0.1:1/secret-path"}, Secrets: map[string]string{"secret": webhooktest.New(t).Secret},
		Permissions: []string{"webhook"},
	})
	got, err := h.Send(channel.Send{Key: "k", Conversation: channel.Conversation{ID: "c"}, Text: "x"})
	if got.Outcome != channel.OutcomeNotSent || err == nil || strings.Contains(err.Error(), "secret-path") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSettingsThatAreRefused(t *testing.T) {
	good := webhooktest.New(t)
	for _, c := range []struct {
		name     string
		settings map[string]any
		secret   string
		path     string
	}{
		{"no address", map[string]any{}, good.Secret, "deliver_url"},
		{"a password in the address", map[string]any{"deliver_url": "https://a:b@example.com/"}, good.Secret, "deliver_url"},
		{"another scheme", map[string]any{"deliver_url": "ftp://example.com/"}, good.Secret, "deliver_url"},
		{"no secret", map[string]any{"deliver_url": good.URL()}, "", "secrets.secret"},
		{"a short secret", map[string]any{"deliver_url": good.URL()}, "whsec_AAAA", "secrets.secret"},
		{"no time", map[string]any{"deliver_url": good.URL(), "timeout_ms": 1}, good.Secret, "timeout_ms"},
		{"an unknown key", map[string]any{"deliver_url": good.URL(), "url": "x"}, good.Secret, "url"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := plugintest.TryStart(t, &plugin{}, plugintest.Config{Settings: c.settings, Secrets: map[string]string{"secret": c.secret}, Permissions: []string{"webhook"}})
			wrong, ok := errors.AsType[channel.FieldErrors](err)
			if !ok || wrong[0].Path != c.path || c.secret != "" && strings.Contains(err.Error(), c.secret) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"text":"hello","sender":{"id":"u1"}}`))
	f.Add([]byte(`{"text":"x","sender":{"id":"u"},"kind":"group","sent_at":1e10}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := parse(body)
		if err == nil && (m.Text == "" || m.Sender.ID == "" || m.Conversation == "" || m.event("x").Conversation.ID == "") {
			t.Errorf("%q is %+v", body, m)
		}
	})
}

func FuzzVerify(f *testing.F) {
	f.Add("m1", "1700000000", "v1,AAAA", []byte("body"))
	secret := bytes.Repeat([]byte{1}, 32)
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {signature}}
		if _, err := verify(secret, h, body, now); err == nil && !strings.Contains(signature, sign(secret, id, timestamp, body)) {
			t.Errorf("%q was believed", signature)
		}
	})
}

func TestKeepsToTheContract(t *testing.T) {
	plugintest.Conform(t, plugintest.Conformance{
		Channel: func() channel.Channel { return &plugin{} }, Platform: webhooktest.Fake, Redelivers: true, Only: []string{"window", "kill-replay", "send"},
		Config: plugintest.Config{Settings: map[string]any{"path": "in"}, Permissions: []string{"webhook"}},
	})
}
