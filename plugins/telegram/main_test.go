package main

import (
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
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

func TestManifestAgreesWithDescribe(t *testing.T) {
	var m struct {
		Name, Version string
		Channel       struct {
			MaxText                                                        int    `toml:"max_text"`
			MaxAttachment                                                  string `toml:"max_attachment"`
			MinEditInterval                                                string `toml:"min_edit_interval"`
			Edit, Typing, Delete, React, Fetch, Upload, Resolve, Reconcile bool
			Idempotent, Exclusive, Threads, Markdown, Buttons              bool
			Senders                                                        string
		}
		Permissions struct{ State bool }
	}
	if _, err := toml.DecodeFile("plugin.toml", &m); err != nil {
		t.Fatal(err)
	}
	d := (&plugin{}).Describe()
	if d.Name != m.Name || d.Version != m.Version {
		t.Errorf("%s %s, and in the manifest %s %s", d.Name, d.Version, m.Name, m.Version)
	}
	interval, err := time.ParseDuration(m.Channel.MinEditInterval)
	want := channel.Capabilities{
		MaxTextRunes: m.Channel.MaxText, MaxAttachmentBytes: 50 << 20, MinEditInterval: interval, Idempotent: m.Channel.Idempotent,
		Exclusive: m.Channel.Exclusive, Threads: m.Channel.Threads, Markdown: m.Channel.Markdown, Buttons: m.Channel.Buttons, Senders: channel.SendersProved,
	}
	if err != nil || m.Channel.Senders != "proved" || d.Capabilities != want || m.Channel.MaxAttachment != "50MiB" || !m.Permissions.State {
		t.Errorf("capabilities are %+v, and in the manifest %+v, %v", d.Capabilities, want, err)
	}
	var has []string
	list := reflect.ValueOf(m.Channel)
	for _, name := range []string{"Edit", "Typing", "Delete", "React", "Fetch", "Upload", "Resolve", "Reconcile"} {
		if list.FieldByName(name).Bool() {
			has = append(has, map[string]string{
				"Edit": "edit", "Typing": "typing", "Delete": "delete", "React": "react", "Fetch": "fetch", "Upload": "upload",
				"Resolve": "resolve", "Reconcile": "reconcile",
			}[name])
		}
	}
	if got := ready(t, telegramtest.Start(t)).Abilities(); !reflect.DeepEqual(got, has) {
		t.Errorf("abilities are %v, and in the manifest %v", got, has)
	}
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
