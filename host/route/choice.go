package route

import (
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
)

// newChoices are the agents that people may choose in chat, with the least role that it takes.
func newChoices(cfg *config.Config) map[string]string {
	choices := map[string]string{}
	for _, name := range cfg.Routing.Selectable {
		choices[name] = cfg.Agents[name].SelectableBy
	}
	return choices
}

// MayChoose reports whether a role is enough for choosing an agent. It is asked when somebody chooses, and again for each message:
// what an owner chose for a group does not lift anybody else there.
func (t *Table) MayChoose(agent, role string) bool {
	least, ok := t.choices[agent]
	return ok && standing(role) >= standing(least) && standing(least) >= 0
}

// standing orders the roles; what is none is below all.
func standing(role string) int { return slices.Index([]string{Guest, Member, Owner}, role) }

// Choices are the agents that a role may choose, sorted.
func (t *Table) Choices(role string) []string {
	var names []string
	for _, name := range t.agents {
		if t.MayChoose(name, role) {
			names = append(names, name)
		}
	}
	return names
}

// With is the table for a place in which people have chosen an agent; "" is none.
func (t *Table) With(chosen string) *Table {
	if chosen == "" {
		return t
	}
	with := *t
	with.chosen = chosen
	return &with
}

// choice puts what people chose in the place of a rule that is about more than the very sender. Whom the configuration names is
// answered by the agent that it names.
func (t *Table) choice(static Match, role string) Match {
	if t.chosen == "" || static.Tier == TierSender || !t.MayChoose(t.chosen, role) {
		return static
	}
	return Match{Agent: t.chosen, Tier: TierChosen, Rule: "/agent " + t.chosen}
}

// Fixed reports whether a rule for the exact sender decides, so that there is nothing to choose.
func (t *Table) Fixed(m message.Message) bool {
	static, _ := t.Resolve(m.Channel, m.SenderKey())
	return static.Tier == TierSender
}
