package route

import (
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
)

func TestRoles(t *testing.T) {
	roles := NewRoles(config.Access{Owners: []string{"irc:boss"}, Members: []string{"irc:*[[]team]", "slack:U[0-9]", "irc:boss"}})
	tests := map[string]struct{ channel, sender, want string }{
		"owner by id":             {"irc", "irc:boss", Owner},
		"owner before member":     {"irc", "irc:boss", Owner},
		"member by glob":          {"irc", "irc:ann[team]", Member},
		"member by class":         {"slack", "slack:U7", Member},
		"anybody else":            {"irc", "irc:eve", Guest},
		"same id, other instance": {"slack", "slack:boss", Guest},
		"terminal":                {"terminal", "terminal:root", Owner},
		"web":                     {"web", "web:x", Owner},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := roles.Of(test.channel, test.sender); got != test.want {
				t.Errorf("role is %s, want %s", got, test.want)
			}
		})
	}
}

func TestPrograms(t *testing.T) {
	roles := NewRoles(config.Access{Owners: []string{"irc:*"}, Members: []string{"openai:*"}}).WithClients(map[string]config.Client{
		"editor": {Role: "member", Agents: []string{"main"}}, "guest": {Role: "guest", Agents: []string{"main", "other"}},
	})
	all := []string{"main", "other", "third"}
	for _, c := range []struct {
		channel, who, agent string
		role, refused       string
		agents              int
	}{
		{"openai", "owner", "third", Owner, "", 3},
		{"mcp", "editor", "main", Member, "", 1},
		{"mcp", "editor", "other", Member, `clients.editor may not ask the agent "other"`, 1},
		{"openai", "guest", "other", Guest, "", 2},
		{"openai", "guest", "", Guest, `clients.guest may not ask the agent ""`, 2},
		{"openai", "nobody", "main", Guest, "there is no [clients.nobody]", 0},
	} {
		m := message.Message{Channel: c.channel, Sender: message.Sender{ID: c.who}, Agent: c.agent}
		if got := roles.Of(m.Channel, m.SenderKey()); got != c.role {
			t.Errorf("%s:%s is %s, want %s", c.channel, c.who, got, c.role)
		}
		if got := roles.Program(m); got != c.refused {
			t.Errorf("%s:%s asks %q: %q, want %q", c.channel, c.who, c.agent, got, c.refused)
		}
		if got := roles.Agents(m, all); len(got) != c.agents {
			t.Errorf("%s:%s may be answered by %q", c.channel, c.who, got)
		}
	}
}
