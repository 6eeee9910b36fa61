package tui

import (
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

// A request is answered by keys only after a while without a key: a person who writes when it appears does not mean it.
func TestRequestsAreArmed(t *testing.T) {
	session := message.Session{Scope: string(message.NewConversationKey(gateway.ChannelTerminal, "main")), Agent: "demo", Epoch: 1}.Key()
	for _, c := range []struct {
		name string
		then func(m *model)
		want bool
	}{
		{"nobody types", func(*model) {}, true},
		{"somebody types", func(m *model) { m.key(tea.KeyPressMsg{Code: tea.KeyLeft}) }, false},
		{"a message is begun", func(m *model) { m.input.add("a draft") }, false},
		{"a list is open", func(m *model) { m.pick = &picker{} }, false},
		{"another one is first", func(m *model) {
			m.approvals([]gateway.Approval{{ID: "2", Session: session}})
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newModel(Config{}, &network{ctx: t.Context()})
			m.conversation, m.width, m.height = "main", 80, 24
			m.approvals([]gateway.Approval{{ID: "1", Session: session}})
			due := armMsg{m.card.serial}
			c.then(m)
			m.handle(due)
			if m.card.armed != c.want {
				t.Errorf("armed: %v", m.card.armed)
			}
		})
	}
}
