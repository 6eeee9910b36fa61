package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/route"
)

func TestForPeople(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"ours", fmt.Errorf("end: %w", plainError("the turn used its 4 steps")), "the turn used its 4 steps."},
		{"a defect", errors.New("open /srv/secret: denied"), "inside the host"},
		{"busy", &model.Error{Kind: model.RateLimited}, "too busy"},
		{"away", &model.Error{Kind: model.Cut}, "could not be reached"},
		{"a lack of the host's own", &model.Error{Kind: model.Lacking}, "short of descriptors"},
		{"no answer", &model.Error{Kind: model.BadAnswer}, "answer could not be read"},
		{"key", &model.Error{Kind: model.Auth, Err: errors.New("key sk-1 is wrong")}, "refused the request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := forPeople(tt.err); !strings.Contains(got, tt.want) || strings.Contains(got, "secret") || strings.Contains(got, "sk-1") {
				t.Errorf("told as %q, want %q in it", got, tt.want)
			}
		})
	}
}

// TestTheOperatorReadsTheCause compares what the owner at his own terminal is told with what others are.
func TestTheOperatorReadsTheCause(t *testing.T) {
	cause := &model.Error{Kind: model.Auth, Provider: "openai", Model: "m", Err: errors.New("status 401: no such key; check api_key_env of this tier")}
	const detail = "status 401: no such key; check api_key_env of this tier"
	roles := route.NewRoles(config.Access{Owners: []string{"irc:ann"}, Members: []string{"irc:bob"}}, route.AllProved)
	for _, c := range []struct {
		channel, sender string
		delegated       bool
		want            bool
	}{
		{"terminal", "terminal:owner", false, true},
		{"web", "web:owner", false, true},
		{"web", "web:owner", true, false},
		{"irc", "irc:ann", false, false}, // the conversation may have other readers
		{"irc", "irc:bob", false, false},
		{"irc", "irc:eve", false, false},
		{"openai", "openai:editor", false, false},
	} {
		var d *delegated
		if c.delegated {
			d = &delegated{}
		}
		tn := (&Runner{}).newTurn(&Generation{Roles: roles}, nil, nil, message.Message{}, turnlog.Turn{Channel: c.channel, Sender: message.SenderKey(c.sender)}, d)
		if got := tn.words(cause); strings.Contains(got, detail) != c.want || strings.Contains(got, "log says") == c.want {
			t.Errorf("%s, delegated %v: %q", c.sender, c.delegated, got)
		}
	}
}
