package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/plugins/discord/discordtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setting is a Discord with a server in which Ann is the owner and Bob has two roles, and a bot.
type setting struct {
	*discordtest.Server
	t        *testing.T
	ann, bob discordtest.User
	guild    string
	roles    []string
	room     string // a channel
	private  string // Ann's chat with the bot
	dir      string
	plugin   *plugin // the latest
}

func newSetting(t *testing.T) *setting {
	t.Helper()
	s := &setting{Server: discordtest.Start(t), t: t, dir: t.TempDir()}
	s.ann, s.bob = s.Person("Ann"), s.Person("Bob")
	s.guild, s.roles = s.Guild(s.ann, "member", "moderator", "Owner")
	s.Give(s.guild, s.bob, s.roles...)
	s.room, s.private = s.Channel(s.guild, ""), s.Channel("", "")
	return s
}

// bot starts the plugin, and waits until it is there.
func (s *setting) bot(more map[string]any) *plugintest.Host {
	s.t.Helper()
	before := s.Counts()
	h := s.starting(more)
	s.Await("the bot connects", func() bool { return s.Counts().Identified+s.Counts().Resumed > before.Identified+before.Resumed })
	h.WaitStatus(channel.StateReady)
	return h
}

func (s *setting) starting(more map[string]any) *plugintest.Host {
	s.t.Helper()
	settings := map[string]any{"api": s.API(), "cdn": []string{s.CDN()}}
	for k, v := range more {
		settings[k] = v
	}
	s.plugin = &plugin{pause: func(int) time.Duration { return time.Millisecond }}
	return plugintest.Start(s.t, s.plugin, plugintest.Config{Settings: settings, Secrets: map[string]string{"token": s.Token}, StateDir: s.dir, Permissions: []string{"media"}})
}

// next takes the next event over.
func next(t *testing.T, h *plugintest.Host) channel.Event {
	t.Helper()
	e := h.Event()
	h.Ack()
	return e
}

// texts takes over as many events and returns what they say.
func texts(t *testing.T, h *plugintest.Host, n int) []string {
	t.Helper()
	var out []string
	for range n {
		out = append(out, next(t, h).Text)
	}
	return out
}

// settled waits until the plugin knows that the host has all that was said in a channel.
func (s *setting) settled(channel, id string) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	for tick := time.NewTicker(time.Millisecond); ; {
		if last, _ := s.plugin.position.place(channel); last == id {
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("message %s is not acked", id)
		}
	}
}

func TestMessages(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	thread := s.Channel(s.guild, s.room)
	sent, err := h.Send(channel.Send{Key: "k", Conversation: channel.Conversation{ID: s.room}, Text: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	group, self := channel.Conversation{ID: s.room, Kind: channel.Group}, "<@"+s.Self.ID+">"
	reply := func(m *discordtest.Message) { m.Reference = &discordtest.Reference{MessageID: sent.MessageIDs[0]} }
	hook := func(m *discordtest.Message) { m.WebhookID = "77" }
	for _, c := range []struct {
		name   string
		where  string
		who    discordtest.User
		text   string
		change []func(*discordtest.Message)
		want   channel.Event
	}{
		{"a private chat", s.private, s.ann, "hi", nil, channel.Event{
			Conversation: channel.Conversation{ID: s.private, Kind: channel.DM}, Sender: channel.Sender{ID: s.ann.ID, Name: "Ann"}, Text: "hi", Addressed: true,
		}},
		{"not for Flynn, by the owner", s.room, s.ann, "all", nil, channel.Event{
			Conversation: group, Sender: channel.Sender{ID: s.ann.ID, Name: "Ann", Roles: []string{"owner"}}, Text: "all",
		}},
		{"a mention, by somebody with roles", s.room, s.bob, self + ", do <@" + s.ann.ID + "> <:smile:12>", nil, channel.Event{
			Conversation: group, Sender: channel.Sender{ID: s.bob.ID, Name: "Bob", Roles: []string{"moderator", "member"}},
			Text: "do @Ann :smile:", Addressed: true, Mentioned: true, Entities: []channel.Entity{{Kind: "mention", Offset: 3, Length: 4, Value: s.ann.ID}},
		}},
		{"an answer to the bot", s.room, s.ann, "why?", []func(*discordtest.Message){reply}, channel.Event{
			Conversation: group, Sender: channel.Sender{ID: s.ann.ID, Name: "Ann", Roles: []string{"owner"}}, Text: "why?", Addressed: true,
			ReplyTo: sent.MessageIDs[0],
		}},
		{"a thread", thread, s.ann, "deep", nil, channel.Event{
			Conversation: channel.Conversation{ID: thread, Kind: channel.Thread, Parent: s.room},
			Sender:       channel.Sender{ID: s.ann.ID, Name: "Ann", Roles: []string{"owner"}}, Text: "deep",
		}},
		{"a webhook that calls itself Ann", s.room, discordtest.User{ID: s.ann.ID, Username: "Ann"}, "x", []func(*discordtest.Message){hook}, channel.Event{
			Conversation: group, Sender: channel.Sender{ID: "webhook:77", Name: "Ann", Bot: true}, Text: "x",
		}},
	} {
		id := s.Say(c.where, c.who, c.text, c.change...)
		e := next(t, h)
		got := e
		got.ID, got.SentAt, got.RawJSON = "", time.Time{}, nil
		if !equal(got, c.want) || e.ID != id || e.SentAt.IsZero() || len(e.RawJSON) == 0 {
			t.Errorf("%s: event is %+v\nwant %+v", c.name, e, c.want)
		}
	}
}

func equal(a, b channel.Event) bool {
	return a.Conversation == b.Conversation && a.Sender.ID == b.Sender.ID && a.Sender.Name == b.Sender.Name && a.Sender.Bot == b.Sender.Bot &&
		slices.Equal(a.Sender.Roles, b.Sender.Roles) && a.Text == b.Text && a.Addressed == b.Addressed && a.Mentioned == b.Mentioned &&
		a.ReplyTo == b.ReplyTo && a.Kind == b.Kind && a.TargetID == b.TargetID && slices.Equal(a.Entities, b.Entities)
}

func TestWhatHappensToMessages(t *testing.T) {
	s := newSetting(t)
	h := s.bot(nil)
	id := s.Say(s.room, s.bob, "one")
	next(t, h)
	s.Change(s.room, id, "") // a preview: nothing happens
	s.Change(s.room, id, "two")
	s.React(s.room, id, s.bob, "👍")
	s.Remove(s.room, id)
	edit, reaction, deleted := next(t, h), next(t, h), next(t, h)
	if edit.Kind != channel.EventEdit || edit.Text != "two" || edit.TargetID != id || !strings.HasPrefix(edit.ID, id+"-edit-") {
		t.Errorf("edit is %+v", edit)
	}
	if reaction.Kind != channel.EventReaction || reaction.Text != "👍" || reaction.TargetID != id || reaction.Sender.ID != s.bob.ID {
		t.Errorf("reaction is %+v", reaction)
	}
	if deleted.Kind != channel.EventDelete || deleted.TargetID != id {
		t.Errorf("deletion is %+v", deleted)
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings map[string]any
		token    string
		path     string
	}{
		{"no token", nil, "", "secrets.token"},
		{"an address that is none", map[string]any{"api": "discord.com"}, "x", "api"},
		{"a server that is none", map[string]any{"guilds": []string{"mine"}}, "x", "guilds.0"},
		{"too much to catch up", map[string]any{"catch_up": 1 << 20}, "x", "catch_up"},
		{"an unknown key", map[string]any{"tokn": "x"}, "x", "tokn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := plugintest.TryStart(t, &plugin{}, plugintest.Config{Settings: c.settings, Secrets: map[string]string{"token": c.token}})
			wrong, ok := err.(channel.FieldErrors)
			if !ok || len(wrong) != 1 || wrong[0].Path != c.path {
				t.Errorf("got %v, want one error at %s", err, c.path)
			}
		})
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
