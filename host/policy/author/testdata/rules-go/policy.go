// Twenty rules, first match on channel and the beginning of the sender.
package main

import (
	"strings"

	"github.com/flynnhost/flynn/sdk/policy"
)

type rule struct{ channel, prefix, agent string }

// A sender glob with one star at its end is a prefix; the channel is part of the sender's name too, but
// a rule that names it is over after one comparison.
var rules = [...]rule{
	{"telegram", "telegram:100", "agent-01"}, {"telegram", "telegram:101", "agent-02"}, {"telegram", "telegram:102", "agent-03"},
	{"telegram", "telegram:2", "agent-04"}, {"discord", "discord:3000", "agent-05"}, {"discord", "discord:3001", "agent-06"},
	{"discord", "discord:31", "agent-07"}, {"discord", "discord:4", "agent-08"}, {"slack", "slack:U00", "agent-09"},
	{"slack", "slack:U01", "agent-10"}, {"slack", "slack:U02", "agent-11"}, {"slack", "slack:W", "agent-12"},
	{"irc", "irc:al", "agent-13"}, {"irc", "irc:bo", "agent-14"}, {"irc", "irc:ca", "agent-15"}, {"irc", "irc:da", "agent-16"},
	{"whatsapp", "whatsapp:+49", "agent-17"}, {"whatsapp", "whatsapp:+33", "agent-18"}, {"web", "web:", "agent-19"},
	{"matrix", "matrix:@", "agent-20"},
}

func init() {
	policy.Route(func(f policy.RouteFacts) policy.RouteAnswer {
		channel, sender := f.Channel(), f.Sender()
		for i := range rules {
			r := &rules[i]
			if r.channel == channel && strings.HasPrefix(sender, r.prefix) {
				return policy.RouteAnswer{Agent: r.agent, Rule: uint32(i) + 1}
			}
		}
		return policy.RouteAnswer{}
	})
}

func main() {}
