package route

import (
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
)

func TestChoice(t *testing.T) {
	cfg := load(t, "routing.selectable = ['b', 'c']\nrouting.senders = { 'irc:alice' = 'a', 'irc:g*' = 'a' }")
	c := cfg.Agents["c"]
	c.SelectableBy = "owner"
	cfg.Agents["c"] = c
	table, _ := New(cfg)
	for name, c := range map[string]struct {
		chosen, sender, role string
		agent                string
		tier                 Tier
	}{
		"nothing chosen":                {"", "bob", Member, "d", TierDefault},
		"chosen by a member":            {"b", "bob", Member, "b", TierChosen},
		"a guest is not enough":         {"b", "bob", Guest, "d", TierDefault},
		"no role at all is not enough":  {"b", "bob", "", "d", TierDefault},
		"for owners alone":              {"c", "bob", Member, "d", TierDefault},
		"by an owner":                   {"c", "bob", Owner, "c", TierChosen},
		"a rule for the sender is over": {"b", "alice", Owner, "a", TierSender},
		"a glob is below":               {"b", "gina", Member, "b", TierChosen},
		"not selectable":                {"a", "gina", Owner, "a", TierGlob},
		"no agent any more":             {"z", "bob", Owner, "d", TierDefault},
	} {
		t.Run(name, func(t *testing.T) {
			facts := policy.RouteFacts{Facts: policy.Facts{
				Message: message.Message{Channel: "irc", Sender: message.Sender{ID: c.sender}}, Role: c.role,
			}}
			d, _ := Decide(t.Context(), table.With(c.chosen), nil, facts)
			if d.Agent != c.agent || d.Static.Tier != c.tier {
				t.Errorf("decided %+v", d)
			}
			policies := &chain{answer: policy.RouteAnswer{Decided: true, Agent: "a", Policy: "p"}}
			d, _ = Decide(t.Context(), table.With(c.chosen), policies, facts)
			if d.Agent != "a" || policies.asked[0].Candidate != c.agent {
				t.Errorf("a policy decided %+v over the candidate %q", d, policies.asked[0].Candidate)
			}
		})
	}
	if got := table.Choices(Member); !slices.Equal(got, []string{"b"}) {
		t.Errorf("a member may choose %q", got)
	}
	if got := table.Choices(Owner); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("an owner may choose %q", got)
	}
}
