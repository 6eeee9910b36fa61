package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts the plugin against a server; further pairs are settings.
func start(t *testing.T, s *telegramtest.Server, settings ...any) *plugintest.Host {
	t.Helper()
	return startIn(t, s, t.TempDir(), settings...)
}

func startIn(t *testing.T, s *telegramtest.Server, dir string, settings ...any) *plugintest.Host {
	t.Helper()
	c := plugintest.Config{
		Settings: map[string]any{"api_url": s.URL}, Secrets: map[string]string{"token": telegramtest.Token}, StateDir: dir,
	}
	for i := 0; i < len(settings); i += 2 {
		c.Settings[settings[i].(string)] = settings[i+1]
	}
	return plugintest.Start(t, &plugin{}, c)
}

// ready starts the plugin and waits until it is connected.
func ready(t *testing.T, s *telegramtest.Server, settings ...any) *plugintest.Host {
	t.Helper()
	h := start(t, s, settings...)
	h.WaitStatus(channel.StateReady)
	return h
}

// next is the next event, acked.
func next(h *plugintest.Host) channel.Event {
	e := h.Event()
	h.Ack()
	return e
}

func TestSettings(t *testing.T) {
	good := map[string]string{"token": telegramtest.Token}
	for _, c := range []struct {
		name     string
		settings map[string]any
		secrets  map[string]string
		path     string
	}{
		{"no token", nil, nil, "secrets.token"},
		{"no form of a token", nil, map[string]string{"token": "hello"}, "secrets.token"},
		{"mode", map[string]any{"mode": "push"}, good, "mode"},
		{"quote", map[string]any{"quote": "sometimes"}, good, "quote"},
		{"address", map[string]any{"api_url": "api.telegram.org"}, good, "api_url"},
		{"address of a user", map[string]any{"api_url": "https://a:b@example.com"}, good, "api_url"},
		{"unknown key", map[string]any{"tokken": "x"}, good, "tokken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := plugintest.TryStart(t, &plugin{}, plugintest.Config{Settings: c.settings, Secrets: c.secrets})
			wrong, ok := err.(channel.FieldErrors)
			if !ok || len(wrong) != 1 || wrong[0].Path != c.path {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := os.Stat("README.md"); err != nil {
		t.Error(err)
	}
}
