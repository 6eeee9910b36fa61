package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

// hooked starts the plugin in webhook mode.
func hooked(t *testing.T, s *telegramtest.Server) *plugintest.Host {
	t.Helper()
	h := plugintest.Start(t, &plugin{}, plugintest.Config{
		Settings:    map[string]any{"api_url": s.URL, "mode": "webhook"},
		Secrets:     map[string]string{"token": telegramtest.Token},
		Permissions: []string{"webhook"},
	})
	h.WaitStatus(channel.StateReady)
	return h
}

func TestWebhookAnswersWhenTheHostHasTheUpdate(t *testing.T) {
	s := telegramtest.Start(t)
	h := hooked(t, s)
	chat := s.Private("Ann")
	chat.Say("hello")
	if e := h.Event(); e.Text != "hello" {
		t.Fatalf("got %+v", e)
	}
	if s.Unconfirmed() != 1 || s.WebhookAttempts() != 0 {
		t.Error("Telegram heard yes before the host had it")
	}
	h.Ack()
	s.AwaitConfirmed()
	if got := strings.Join(s.Allowed(), " "); got != strings.Join(wanted(), " ") {
		t.Errorf("asked for %s", got)
	}
	if n := len(s.Calls("getUpdates")); n != 0 {
		t.Errorf("polled %d times", n)
	}
}

func TestWebhookButton(t *testing.T) {
	s := telegramtest.Start(t)
	h := hooked(t, s)
	chat := s.Private("Ann")
	if _, err := h.Send(channel.Send{Conversation: dm(chat), Text: "ok?", Buttons: []channel.Button{{Text: "ok", Value: "ok"}}}); err != nil {
		t.Fatal(err)
	}
	chat.Press(chat.Ann, chat.AwaitMessages(1)[0].ID, "ok")
	if e := next(h); e.Kind != channel.EventButton || e.Text != "ok" {
		t.Errorf("got %+v", e)
	}
	s.Await("answerCallbackQuery", 1)
}

func TestWebhookTakesUpdatesOfTelegramAlone(t *testing.T) {
	s := telegramtest.Start(t)
	h := hooked(t, s)
	secret := s.Calls("setWebhook")[0].Params["secret_token"]
	for _, c := range []struct {
		name, secret, body string
		status             int
	}{
		{"no secret", "", `{"update_id":1}`, 401},
		{"another secret", strings.Repeat("A", len(secret)), `{"update_id":1}`, 401},
		{"no JSON", secret, `hello`, 400},
		{"no id", secret, `{}`, 400},
		{"nothing in it", secret, `{"update_id":1}`, 200},
		{"something else in it", secret, `{"update_id":1,"message":7}`, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequest(http.MethodPost, "/", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Telegram-Bot-Api-Secret-Token", c.secret)
			resp := h.Webhook("", r)
			resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Errorf("answered %d", resp.StatusCode)
			}
		})
	}
}

func TestWebhookThatTelegramDoesNotTake(t *testing.T) {
	s := telegramtest.Start(t)
	s.Fail("setWebhook", telegramtest.Fault{Code: 400, Description: "Bad Request: bad webhook: An HTTPS URL must be provided for webhook"})
	h := plugintest.Start(t, &plugin{}, plugintest.Config{
		Settings:    map[string]any{"api_url": s.URL, "mode": "webhook"},
		Secrets:     map[string]string{"token": telegramtest.Token},
		Permissions: []string{"webhook"},
	})
	if text := h.WaitStatus(channel.StateDegraded); !strings.Contains(text, "HTTPS URL must be provided") {
		t.Errorf("says %q", text)
	}
	h.WaitStatus(channel.StateReady) // at the second try
}

func TestWebhookThatTheHostDoesNotGrant(t *testing.T) {
	s := telegramtest.Start(t)
	h := start(t, s, "mode", "webhook")
	if text := h.WaitStatus(channel.StateDegraded); !strings.Contains(text, "does not grant") {
		t.Errorf("says %q", text)
	}
}
