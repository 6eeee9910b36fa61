package route

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
)

// pairedWith are pairings: roles by sender key.
type pairedWith map[message.SenderKey]string

func (p pairedWith) Role(senderKey message.SenderKey) (string, bool) {
	role, ok := p[senderKey]
	return role, ok
}

func TestRoles(t *testing.T) {
	proofs := func(channel string) message.SenderProof {
		switch channel {
		case "nicks":
			return message.SendersClaimed
		case "walls":
			return message.SendersUnproved
		case "trusting":
			return message.SendersAccepted
		case "old":
			return message.SendersUnsaid
		}
		return message.SendersProved
	}
	roles := NewRoles(config.Access{
		Owners: []string{"irc:boss", "nicks:boss", "walls:*", "trusting:boss", "old:boss", "old:chief", "irc:op-*", "all:*", "all:[?]boss"}, Members: []string{"irc:*[[]team]", "slack:U[0-9]", "irc:boss", "irc:spam-bob", "nicks:ann"},
		Blocked: []string{"irc:spam-*", "irc:op-3", "irc:boss", "web:*", "*[?]eve", "old:boss"},
	}, proofs).With(pairedWith{
		"nicks:raised": Member, "irc:?let-in": Guest, "irc:?raised": Member,
		"irc:new": Guest, "irc:raised": Member, "irc:boss": Guest, "irc:forged": Owner, "irc:odd": "admin", "irc:spam-eve": Member,
	})
	tests := map[string]struct {
		channel, sender, want string
		known                 bool
	}{
		"owner by id, however blocked":       {"irc", "irc:boss", Owner, true},
		"owner by glob":                      {"irc", "irc:op-1", Owner, true},
		"owner by glob, blocked":             {"irc", "irc:op-3", Guest, false},
		"member by glob":                     {"irc", "irc:ann[team]", Member, true},
		"member by class":                    {"slack", "slack:U7", Member, true},
		"member by id, blocked":              {"irc", "irc:spam-bob", Guest, false},
		"anybody else":                       {"irc", "irc:eve", Guest, false},
		"same id, other instance":            {"slack", "slack:boss", Guest, false},
		"not verified, though a glob fits":   {"all", "all:?ann", Guest, false},
		"not verified, though listed":        {"all", "all:?boss", Guest, false},
		"verified, by the same glob":         {"all", "all:ann", Owner, true},
		"not verified and paired":            {"irc", "irc:?let-in", Guest, true},
		"not verified and raised":            {"irc", "irc:?raised", Guest, true},
		"not verified and blocked":           {"all", "all:?eve", Guest, false},
		"an owner's name that anybody takes": {"nicks", "nicks:boss", Guest, true},
		"a member's name that anybody takes": {"nicks", "nicks:ann", Guest, true},
		"a raised name that anybody takes":   {"nicks", "nicks:raised", Guest, true},
		"another name that anybody takes":    {"nicks", "nicks:eve", Guest, false},
		"nobody is told apart":               {"walls", "walls:boss", Guest, true},
		"a claim that the operator accepts":  {"trusting", "trusting:boss", Owner, true},
		"and no name, though he accepts":     {"trusting", "trusting:?boss", Guest, false},
		"a plugin that does not say":         {"old", "old:chief", Guest, true},
		"and a claim outweighs no block":     {"old", "old:boss", Guest, false},
		"a schedule of a claimed owner":      {"schedule", "nicks:boss", Guest, true},
		"a schedule of an owner":             {"schedule", "irc:boss", Owner, true},
		"terminal":                           {"terminal", "terminal:root", Owner, true},
		"web, which nothing blocks":          {"web", "web:x", Owner, true},
		"an API frontend":                    {"openai", "openai:x", Guest, false},
		"paired as guest":                    {"irc", "irc:new", Guest, true},
		"paired, raised to member":           {"irc", "irc:raised", Member, true},
		"a pairing makes no owner":           {"irc", "irc:forged", Guest, true},
		"a role that there is not":           {"irc", "irc:odd", Guest, true},
		"paired and blocked":                 {"irc", "irc:spam-eve", Guest, false},
		"paired on another instance":         {"slack", "slack:new", Guest, false},
		"the configuration before pairings":  {"irc", "irc:boss", Owner, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := roles.Of(test.channel, message.SenderKey(test.sender)); got != test.want {
				t.Errorf("role is %s, want %s", got, test.want)
			}
			if got := roles.Known(test.channel, message.SenderKey(test.sender)); got != test.known {
				t.Errorf("known is %v, want %v", got, test.known)
			}
		})
	}
}

func TestPrograms(t *testing.T) {
	roles := NewRoles(config.Access{Owners: []string{"irc:*"}, Members: []string{"openai:*"}}, AllProved).WithClients(map[string]config.Client{
		"editor": {Role: "member", Agents: []string{"main"}}, "guest": {Role: "guest", Agents: []string{"main", "other"}},
	})
	all := []string{"main", "other", "third"}
	for _, c := range []struct {
		channel, who, agent string
		role                string
		may                 bool
		agents              int
	}{
		{"openai", "owner", "third", Owner, true, 3},
		{"mcp", "editor", "main", Member, true, 1},
		{"mcp", "editor", "other", Member, false, 1},
		{"openai", "guest", "other", Guest, true, 2},
		{"openai", "guest", "", Guest, false, 2},
		{"openai", "nobody", "main", Guest, false, 0},
	} {
		m := message.Message{Channel: c.channel, Sender: message.Sender{ID: c.who}, Agent: c.agent}
		if got := roles.Of(m.Channel, m.SenderKey()); got != c.role {
			t.Errorf("%s:%s is %s, want %s", c.channel, c.who, got, c.role)
		}
		if got := roles.MayAsk(m); got != c.may {
			t.Errorf("%s:%s may ask %q: %v, want %v", c.channel, c.who, c.agent, got, c.may)
		}
		if got := roles.Agents(m, all); len(got) != c.agents {
			t.Errorf("%s:%s may be answered by %q", c.channel, c.who, got)
		}
	}
}

// TestSenderRule: the rule of one sender matches him and nobody else, whatever he is called.
func TestSenderRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sender := message.NewSenderKey("irc", rapid.StringMatching(`[ab*?\[\]{},!^\\~:-]{1,8}`).Draw(t, "id"))
		other := message.NewSenderKey("irc", rapid.StringMatching(`[ab*?\[\]{},!^\\~:-]{1,8}`).Draw(t, "other"))
		rule, ok := SenderRule(sender)
		if !ok {
			return // no rule can name him, and the caller is told so
		}
		if of, ok := SenderOf(rule); !ok || of != sender {
			t.Fatalf("%q is the rule of %q, %v", rule, of, ok)
		}
		people := newPeople([]string{rule})
		if !people.have(sender) || other != sender && people.have(other) {
			t.Fatalf("%q matches %q: %v, %q: %v", rule, sender, people.have(sender), other, people.have(other))
		}
	})
	for _, sender := range []message.SenderKey{"irc:ann", "irc:a*", "irc:nick[m]", "matrix:@a:b.c", "irc:{x}", "irc:a?"} {
		if rule, ok := SenderRule(sender); !ok {
			t.Errorf("there is no rule for %s: %s", sender, rule)
		}
	}
}

// TestFactsOfTheConsole: policies see a person at the console as one of his channel.
func TestFactsOfTheConsole(t *testing.T) {
	roles := NewRoles(config.Access{Members: []string{"irc:ann"}}, AllProved)
	m := message.Message{Channel: message.ConsoleChannel, Sender: message.Sender{ID: "irc:ann"}, Conversation: message.Conversation{ID: "irc:ann~x", Kind: message.DM}}
	f := Facts(m, roles, time.Now())
	if f.Message.Channel != "irc" || f.Message.Sender.ID != "ann" || f.Message.SenderKey() != "irc:ann" || f.Role != Member || f.Door != FrontendChannel {
		t.Errorf("the facts are %+v", f)
	}
	if m.Channel != message.ConsoleChannel || Local(message.ConsoleChannel) {
		t.Error("the message itself has changed, or the console counts as this machine")
	}
}
