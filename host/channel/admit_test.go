package channel

import (
	"fmt"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
)

func TestGate(t *testing.T) {
	closed := config.Access{Mode: "allowlist", Owners: []string{"irc:ann"}, Members: []string{"irc:m*"}, RatePerMinute: 100, Groups: "addressed"}
	open, all := closed, closed
	open.Mode, all.Groups = "open", "all"
	for _, c := range []struct {
		name   string
		access config.Access
		change func(*message.Message)
		want   string // why not, or "" for allowed
	}{
		{"an owner", closed, func(*message.Message) {}, ""},
		{"a member by glob", closed, func(m *message.Message) { m.Sender.ID = "mia" }, ""},
		{"a stranger", closed, func(m *message.Message) { m.Sender.ID = "eve" }, "sender is not in access.owners or access.members"},
		{"the same nick on another network", closed, func(m *message.Message) { m.Channel = "irc2" }, "sender is not in access.owners or access.members"},
		{"a name is not an id", closed, func(m *message.Message) { m.Sender = message.Sender{ID: "eve", Name: "ann"} }, "sender is not in access.owners or access.members"},
		{"a stranger where all are welcome", open, func(m *message.Message) { m.Sender.ID = "eve" }, ""},
		{"a group, not addressed", closed, func(m *message.Message) { m.Conversation.Kind, m.Addressed = message.Group, false }, "not addressed"},
		{"a group, addressed", closed, func(m *message.Message) { m.Conversation.Kind = message.Group }, ""},
		{"a group where all is heard", all, func(m *message.Message) { m.Conversation.Kind, m.Addressed = message.Group, false }, ""},
		{"a program", open, func(m *message.Message) { m.Sender.Bot = true }, "sender is a program"},
		{"the web page", closed, func(m *message.Message) { m.Channel, m.Sender.ID = "web", "owner" }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := message.Message{
				Channel: "irc", Sender: message.Sender{ID: "ann"}, Addressed: true, Conversation: message.Conversation{ID: "x", Kind: message.DM},
			}
			c.change(&m)
			got := NewGate(c.access, route.NewRoles(c.access), time.Now).Admit(m)
			if got.Why != c.want || got.Allowed != (c.want == "") {
				t.Fatalf("admission is %+v, want %q", got, c.want)
			}
		})
	}
}

func TestRateIsPerSender(t *testing.T) {
	access := config.Access{Mode: "open", RatePerMinute: 3}
	now := noon
	g := NewGate(access, route.NewRoles(access), func() time.Time { return now })
	say := func(who string) bool {
		return g.Admit(message.Message{Channel: "irc", Sender: message.Sender{ID: who}, Conversation: message.Conversation{Kind: message.DM}}).Allowed
	}
	for i := range 5 {
		if got, want := say("ann"), i < 3; got != want {
			t.Errorf("message %d: allowed=%v", i, got)
		}
	}
	if !say("bob") {
		t.Error("bob pays for ann")
	}
	now = now.Add(20 * time.Second)
	if !say("ann") || say("ann") {
		t.Error("after 20 s one more message is allowed, not two")
	}
	for i := range maxRates + 10 {
		say(fmt.Sprint("stranger", i))
	}
	if n := len(g.rates); n > maxRates {
		t.Errorf("%d senders are remembered", n)
	}
}
