package route

import (
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
)

func TestPersons(t *testing.T) {
	s := NewScopes(config.Sessions{Links: map[string][]string{"ann": {"irc:ann", "mail:ann@x", "telegram:7"}, "bob": {"irc:bob", "pager:bob"}}}, NewRoles(config.Access{}, func(channel string) message.SenderProof {
		if channel == "pager" {
			return message.SendersUnsaid
		}
		return message.SendersProved
	}))
	for who, want := range map[message.SenderKey][]message.SenderKey{
		"mail:ann@x": {"mail:ann@x", "irc:ann", "telegram:7"},
		"irc:bob":    {"irc:bob"},
		"irc:eve":    {"irc:eve"},
		"pager:bob":  {"pager:bob"},
	} {
		if got := s.Persons(who); !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", who, got, want)
		}
	}
}
