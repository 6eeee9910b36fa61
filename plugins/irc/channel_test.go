package main

import (
	"context"
	"log/slog"
	"testing"

	"github.com/flynnhost/flynn/sdk/channel"
)

// listener keeps what the plugin hands to the host.
type listener struct {
	channel.Inbox
	events []channel.Event
}

func (l *listener) DeliverAsync(_ context.Context, e channel.Event, _ func(error)) error {
	l.events = append(l.events, e)
	return nil
}

// hear lets a plugin read lines of a server and returns the conversations of the messages among them.
func hear(t *testing.T, identity string, lines ...string) (*plugin, []string) {
	t.Helper()
	p := &plugin{settings: settings{Identity: identity}, log: slog.New(slog.DiscardHandler)}
	in, l := &listener{}, &link{nick: "flynn", id: "x", members: newMembers(), accounts: true}
	for _, text := range lines {
		m, err := parseLine(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.handle(t.Context(), l, m, in); err != nil {
			t.Fatal(err)
		}
	}
	var conversations []string
	for _, e := range in.events {
		conversations = append(conversations, e.Conversation.ID)
	}
	return p, conversations
}

func TestAnswersFollowARenameUntilTheNickIsTaken(t *testing.T) {
	before := []string{":Ann!a@h PRIVMSG flynn :one", ":Ann!a@h NICK Mallory"}
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"she went elsewhere", before, "Mallory"},
		{"somebody renames himself to her nick", append(before, ":bob!b@h NICK Ann"), "ann"},
		{"somebody who just came speaks under her nick", append(before, ":Ann!x@y PRIVMSG flynn :two"), "ann"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, conversations := hear(t, "nick", c.lines...)
			if _, target := p.route(conversations[0]); target != c.want {
				t.Errorf("the answer goes to %q, want %q", target, c.want)
			}
		})
	}
}

func TestPrivateConversationsBelongToAccounts(t *testing.T) {
	p, got := hear(t, "account", "@account=ann :ann!a@h PRIVMSG flynn :one", "@account=eve :ann!e@h PRIVMSG flynn :two", ":ann!e@h PRIVMSG flynn :three")
	seen := map[string]bool{}
	for _, id := range got {
		if seen[id] {
			t.Errorf("conversations are %q", got)
		}
		seen[id] = true
		if _, target := p.route(id); target != "ann" {
			t.Errorf("answers in %q go to %q", id, target)
		}
	}
	if _, target := p.route("!12345rooms"); target != "!12345rooms" {
		t.Errorf("a channel became %q", target)
	}
}
