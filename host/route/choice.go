package route

import (
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
)

// newChoices returns the agents that people may choose in chat, with the lowest role that may.
func newChoices(cfg *config.Config) map[string]string {
	choices := map[string]string{}
	for _, name := range cfg.Routing.Selectable {
		choices[name] = cfg.Agents[name].SelectableBy
	}
	return choices
}

// MayChoose reports whether a role may choose an agent. It is checked when somebody chooses, and again for each message, because an
// owner's choice for a group gives no rights to its other members.
func (t *Table) MayChoose(agent, role string) bool {
	least, ok := t.choices[agent]
	return ok && standing(role) >= standing(least) && standing(least) >= 0
}

// standing orders the roles; an unknown one is lowest.
func standing(role string) int { return slices.Index([]string{Guest, Member, Owner}, role) }

// Choices returns the agents that a role may choose, sorted.
func (t *Table) Choices(role string) []string {
	var names []string
	for _, name := range t.agents {
		if t.MayChoose(name, role) {
			names = append(names, name)
		}
	}
	return names
}

// With returns the table for a conversation scope in which people have chosen an agent; "" means none.
func (t *Table) With(chosen string) *Table {
	if chosen == "" {
		return t
	}
	with := *t
	with.chosen = chosen
	return &with
}

// choice replaces the matched rule by the chosen agent, unless the rule names the exact sender.
func (t *Table) choice(static Match, role string) Match {
	if t.chosen == "" || static.Tier == TierSender || !t.MayChoose(t.chosen, role) {
		return static
	}
	return Match{Agent: t.chosen, Tier: TierChosen, Rule: "/agent " + t.chosen}
}

// Fixed reports whether a rule for the exact sender decides, so that there is no choice.
func (t *Table) Fixed(m message.Message) bool {
	static, _ := t.Resolve(m.Channel, m.SenderKey())
	return static.Tier == TierSender
}
