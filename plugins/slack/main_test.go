package main

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/plugins/slack/slacktest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// workspace is a fake Slack with ann, bob of another workspace, a channel and a private chat.
func workspace(t *testing.T, c slacktest.Config) *slacktest.Server {
	t.Helper()
	c.RedeliverAfter = cmp.Or(c.RedeliverAfter, time.Minute) // the machine may have other work
	s := slacktest.Start(t, c)
	s.AddUser(slacktest.User{ID: "U1", Name: "ann", Admin: true})
	s.AddUser(slacktest.User{ID: "U2", Name: "bob", Team: "T2", Owner: true})
	s.AddUser(slacktest.User{ID: "U3", Name: "robot", Bot: true})
	s.AddChannel(slacktest.Channel{ID: "C1", Name: "general"})
	s.AddChannel(slacktest.Channel{ID: "D1", Kind: "im", User: "U1"})
	return s
}

// start runs the plugin against s and waits for its connection.
func start(t *testing.T, s *slacktest.Server, c plugintest.Config) *plugintest.Host {
	t.Helper()
	h := plugintest.Start(t, &plugin{}, configured(s, c))
	h.WaitStatus(channel.StateReady)
	s.WaitConnections(t, 1, 1)
	return h
}

func configured(s *slacktest.Server, c plugintest.Config) plugintest.Config {
	settings := map[string]any{"api_url": s.URL()}
	for key, v := range c.Settings {
		settings[key] = v
	}
	c.Settings = settings
	if c.Secrets == nil {
		c.Secrets = map[string]string{"app_token": slacktest.AppToken, "bot_token": slacktest.BotToken}
	}
	return c
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	good := map[string]string{"app_token": "xapp-1", "bot_token": "xoxb-1"}
	for _, c := range []struct {
		name     string
		settings map[string]any
		secrets  map[string]string
		path     string
	}{
		{"no app token", nil, map[string]string{"bot_token": "xoxb-1"}, "secrets.app_token"},
		{"tokens swapped", nil, map[string]string{"app_token": "xoxb-1", "bot_token": "xapp-1"}, "secrets.app_token"},
		{"unencrypted api", map[string]any{"api_url": "http://slack.com/api/"}, good, "api_url"},
		{"unknown key", map[string]any{"chanels": 1}, good, "chanels"},
		{"threads", map[string]any{"threads": "always"}, good, "threads"},
		{"catch up", map[string]any{"catch_up_hours": 1000}, good, "catch_up_hours"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := plugintest.TryStart(t, &plugin{}, plugintest.Config{Settings: c.settings, Secrets: c.secrets})
			wrong, ok := err.(channel.FieldErrors)
			if !ok || wrong[0].Path != c.path {
				t.Errorf("error %v, want one of %s", err, c.path)
			}
		})
	}
}

// known is a plugin without a connection whose people are all known.
func known(threads string) *plugin {
	p := &plugin{
		settings: settings{Threads: threads, FollowThreads: true}, log: slog.New(slog.DiscardHandler), self: self{slacktest.BotUser, slacktest.BotID, slacktest.Team},
		people: newPeople(nil), places: newPlaces(), unclear: newUnclear(),
	}
	for id, who := range map[string]person{
		"U1": {name: "ann", team: "T1", roles: []string{"admin"}}, "U2": {name: "bob", team: "T2", roles: []string{"owner"}}, "U4": {},
	} {
		p.people.known.Set(id, who, time.Hour)
	}
	return p
}

func FuzzEnvelope(f *testing.F) {
	for _, e := range []string{
		`{"type":"events_api","payload":{"event":{"type":"message","channel":"C1","user":"U1","ts":"1700000000.000001","text":"<@U0BOT> hi"}}}`,
		`{"type":"events_api","payload":{"event":{"type":"message","subtype":"message_changed","channel":"C1","message":{"user":"U1","ts":"1.000001","edited":{"ts":"2.000001"}}}}}`,
		`{"type":"events_api","payload":{"event":{"type":"message","subtype":"message_deleted","channel":"C1","deleted_ts":"1.000001","previous_message":{"user":"U1"}}}}`,
		`{"type":"events_api","payload":{"event":{"type":"reaction_added","user":"U1","reaction":"+1","item":{"type":"message","channel":"C1","ts":"1.000001"}}}}`,
		`{"type":"interactive","payload":{"type":"block_actions","user":{"id":"U1"},"container":{"message_ts":"1.000001","channel_id":"C1"},"actions":[{"action_id":"flynn_0","value":"v","action_ts":"1.0"}]}}`,
		`{"type":"slash_commands","payload":{"command":"/flynn","text":"new","channel_id":"C1","user_id":"U1","trigger_id":"t"}}`,
	} {
		f.Add([]byte(e))
	}
	p := known("mentions")
	p.people.client = newWeb(settings{APIURL: "http://127.0.0.1:1/"}).client
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nobody is looked up
	f.Fuzz(func(t *testing.T, text []byte) {
		var e envelope
		if json.Unmarshal(text, &e) != nil {
			return
		}
		h, ok := p.read(ctx, e)
		if !ok {
			return
		}
		if h.event.ID == "" || h.event.Conversation.ID == "" || h.event.Sender.ID == "" && h.event.Kind == channel.EventButton {
			t.Errorf("event without identity: %+v", h.event)
		}
		for _, n := range h.event.Entities {
			if n.Offset < 0 || n.Offset+n.Length > len(h.event.Text) {
				t.Errorf("entity %+v outside of %q", n, h.event.Text)
			}
		}
	})
}

func TestReactionsHaveNames(t *testing.T) {
	for _, e := range emojis() {
		if got := emoji(e[1]); got != e[0] {
			t.Errorf("%s looks like %s, want %s", e[1], got, e[0])
		}
	}
	for in, want := range map[string]string{"👍": "+1", "❤️": "heart", ":party_parrot:": "party_parrot", "eyes": "eyes"} {
		if got := reactionName(in); got != want {
			t.Errorf("%s is called %s, want %s", in, got, want)
		}
	}
	if !slices.Equal([]string{emoji("party_parrot"), emoji("+1::skin-tone-2")}, []string{"party_parrot", "👍"}) {
		t.Error("unknown names or skin tones are lost")
	}
}
