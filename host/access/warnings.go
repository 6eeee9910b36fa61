package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
)

// Warnings returns warnings about rules for owners, members and links on channels that do not prove sender ids: rules that give rights
// to anybody who takes a name, and rules without effect.
func Warnings(c *config.Config) []config.Error {
	var out []config.Error
	proofs := new(Proofs).Under(c)
	for _, instance := range slices.Sorted(maps.Keys(c.Channels)) {
		channel := c.Channels[instance]
		proof := proofs(instance)
		if _, err := manifestOf(c, channel.Plugin); !channel.Enabled || proof == message.SendersProved || err != nil {
			continue
		}
		problem, hint := weigh(instance, channel.Plugin, proof)
		for _, r := range rules(c) {
			if mayMeet(r.rule, instance) {
				out = append(out, config.Error{
					File: c.Path, Line: c.Line(r.key...), Key: config.KeyString(r.key...),
					Problem: fmt.Sprintf("%q %s", r.rule, problem), Hint: hint,
				})
			}
		}
	}
	return out
}

// weigh returns the problem with a rule on an instance, and a hint.
func weigh(instance, plugin string, proof message.SenderProof) (problem, hint string) {
	switch proof {
	case message.SendersAccepted:
		return fmt.Sprintf("gives its rights to anybody who takes the name on channel %q, whose senders are not proved", instance),
			"see \"Who is who\" in the README of plugin " + plugin
	case message.SendersClaimed, message.SendersUnproved:
		return fmt.Sprintf("gives no rights on channel %q: its platform does not prove who a sender is", instance),
			fmt.Sprintf("remove it, or set trust_senders = true under [channels.%s] if anybody may have them", instance)
	}
	return fmt.Sprintf("gives no rights on channel %q: its plugin %s does not say that the platform proves who a sender is", instance, plugin),
		fmt.Sprintf("install a newer version of the plugin, or write trust_senders = true under [channels.%s] if you know that it does", instance)
}

// rule is a rule that gives a sender more rights than a guest's.
type rule struct {
	key  []string
	rule string
}

func rules(c *config.Config) []rule {
	var out []rule
	add := func(all []string, key ...string) {
		for _, r := range all {
			out = append(out, rule{key, r})
		}
	}
	add(c.Access.Owners, "access", "owners")
	add(c.Access.Members, "access", "members")
	for _, name := range slices.Sorted(maps.Keys(c.Sessions.Links)) {
		add(c.Sessions.Links[name], "sessions", "links", name)
	}
	return out
}

// mayMeet reports whether a rule may match senders of an instance. For a glob it compares the text before the first wildcard.
func mayMeet(rule, instance string) bool {
	literal := rule
	if i := strings.IndexAny(rule, "*?[{"); i >= 0 {
		literal = rule[:i]
	}
	if of, _, ok := message.SenderKey(literal).Cut(); ok {
		return of == instance
	}
	return literal != rule && strings.HasPrefix(instance, literal)
}
