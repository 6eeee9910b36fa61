package route

import (
	"testing"

	"github.com/flynnhost/flynn/host/config"
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
