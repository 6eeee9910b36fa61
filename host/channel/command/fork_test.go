package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/store"
)

// A fork goes on where its person can be, and says which files it has.
func TestFork(t *testing.T) {
	some, none := snapshot.Copied{Files: 3}, snapshot.Copied{Why: "no room"}
	for _, c := range []struct {
		name, channel, who string
		kind               message.Kind
		files              snapshot.Copied
		err                error
		want               []string
		to                 string // with N for the number of the message
	}{
		{"on the terminal", "terminal", "owner", message.DM, some, nil, []string{"`/session fork-N`", "copy of the files (3)"}, "terminal:fork-N of terminal:owner"},
		{"on the web page", "web", "owner", message.DM, none, nil, []string{"http://console/#/web/fork-N", "none of the files: no room."}, "web:fork-N of web:owner"},
		{"at the console", "console", "irc:bob", message.DM, some, nil, []string{"http://console/#/console/irc:bob~fork-N"}, "console:irc:bob~fork-N of irc:bob"},
		{"on a platform", "irc", "bob", message.DM, some, nil, []string{"at the console", "http://console/#/console/irc:bob~fork-N", "/console"}, "console:irc:bob~fork-N of irc:bob"},
		{"in a group", "irc", "bob", message.Group, some, nil, []string{"Only an owner"}, ""},
		{"an owner in a group", "irc", "ann", message.Group, some, nil, []string{"at the console"}, "console:irc:ann~fork-N of irc:ann"},
		{"nobody knows who it is", "irc", "claimed", message.DM, some, nil, []string{"nothing proves here"}, ""},
		{"while an answer is written", "terminal", "owner", message.DM, some, store.Conflict("an answer is being written"), []string{"An answer is being written."}, "terminal:fork-N of terminal:owner"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.forked, h.forkErr = c.files, c.err
			row, _, err := h.store.AppendInbox(t.Context(), message.Message{
				Channel: c.channel, EventID: "e", Conversation: message.Conversation{ID: "talk", Kind: c.kind}, Sender: message.Sender{ID: c.who}, Text: "/fork",
			}, mailbox.InboxNew, "")
			if err != nil {
				t.Fatal(err)
			}
			h.service.Work(t.Context(), "", []mailbox.InboxRow{row})
			got := h.replied[0].Text
			for _, part := range c.want {
				if part = strings.ReplaceAll(part, "-N", fmt.Sprint("-", row.ID)); !strings.Contains(got, part) {
					t.Errorf("%q is not in %q", part, got)
				}
			}
			var want []string
			if c.to != "" {
				want = []string{"fork " + c.channel + ":talk to " + strings.ReplaceAll(c.to, "-N", fmt.Sprint("-", row.ID))}
			}
			if !slices.Equal(h.undos, want) {
				t.Errorf("forked %q, want %q", h.undos, want)
			}
		})
	}
}
