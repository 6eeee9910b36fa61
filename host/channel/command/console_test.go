package command

import (
	"context"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/message"
)

// Link implements Console.
func (h *house) Link(_ context.Context, sender message.SenderKey, event string) (string, bool, error) {
	h.linked = append(h.linked, string(sender)+" by "+event)
	return "http://127.0.0.1:7351/#sign-in=SECRET", true, nil
}

// Proved implements Rules.
func (h *house) Proved(_ string, key message.SenderKey) bool {
	return !strings.HasSuffix(string(key), ":claimed")
}

func TestConsole(t *testing.T) {
	for _, c := range []struct {
		name, channel, who, text, want string
		kind                           message.Kind
		linked                         bool
	}{
		{"a guest in private", "irc", "bob", "/console", "http://127.0.0.1:7351/#sign-in=SECRET", message.DM, true},
		{"an owner in private", "irc", "ann", "/Console@flynn", "on the machine that Flynn runs on", message.DM, true},
		{"in a group", "irc", "ann", "/console", "Write `/console` in a private chat.", message.Group, false},
		{"in a thread", "irc", "ann", "/console", "Write `/console` in a private chat.", message.Thread, false},
		{"nobody proves him", "irc", "claimed", "/console", "Nothing proves here who you are", message.DM, false},
		{"on the page", "web", "owner", "/console", "You are at the console already.", message.DM, false},
		{"at the console", "console", "irc:ann", "/console", "You are at the console already.", message.DM, false},
		{"an API client", "openai", "app", "/console", "You are at the console already.", message.DM, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			got := h.sayOn(c.channel, "e1", c.who, c.text, c.kind)
			if !strings.Contains(got, c.want) {
				t.Errorf("says %q, want %q in it", got, c.want)
			}
			if want := c.channel + ":" + c.who + " by " + c.channel + ":e1"; c.linked != (len(h.linked) == 1 && h.linked[0] == want) {
				t.Errorf("links were made for %q", h.linked)
			}
			for _, e := range h.published {
				if strings.Contains(e.Text, "SECRET") {
					t.Errorf("watchers see the link: %q", e.Text)
				}
			}
		})
	}
}
