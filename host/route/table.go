// Package route is the static table: which agent answers a sender, by the rules
// of the configuration alone, and Decide, which joins it with the route policies.
//
// Start with New and Table.Resolve. An exact sender comes before what people chose in chat, this before a sender glob, a glob
// before the channel, the channel before the default. Of several globs that match, the
// one with the longest literal prefix decides, then the one with more literal characters,
// then the one that stands first in the file. New also tells what is wrong with the rules;
// Check hands that to the loader. The package runs no policy itself and answers nobody.
package route

import (
	"cmp"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/glob"
	"github.com/flynnhost/flynn/host/message"
)

// Tier is how specific a rule is.
type Tier string

// The tiers, most specific first.
const (
	TierAsked   Tier = "asked" // TierAsked   Tier = "asked" // no rule: the frontend asked for the agent by name
	TierSender  Tier = "sender"
	TierChosen  Tier = "chosen" // no rule: people chose the agent with /agent
	TierGlob    Tier = "glob"
	TierChannel Tier = "channel"
	TierDefault Tier = "default"
)

// Match is the rule that matches a sender.
type Match struct {
	Agent string
	Tier  Tier
	// Rule is the rule's key in the file: a sender id, a glob, a channel, or "default_agent".
	Rule string
	Line int // of the rule in the configuration file, or 0
}

// Table resolves senders. It is immutable and safe for concurrent use.
type Table struct {
	agents   []string
	senders  map[string]Match
	globs    map[string][]globRule // by literal prefix, best first
	prefixes []int                 // lengths of the prefixes in globs, longest first
	channels map[string]Match
	fallback Match // without an agent if there is none

	choices map[string]string // lowest role that may choose an agent
	chosen  string            // as in With
}

type globRule struct {
	pattern *glob.Pattern
	match   Match
}

// New builds the table of a configuration and returns findings about its rules. It leaves out invalid rules.
func New(cfg *config.Config) (*Table, []Finding) {
	l := newLint(cfg)
	t := &Table{
		agents:   l.agents,
		senders:  map[string]Match{},
		globs:    map[string][]globRule{},
		channels: map[string]Match{},
		choices:  newChoices(cfg),
	}
	rules := l.rules()
	for _, r := range rules {
		switch r.Tier {
		case TierSender:
			t.senders[r.literal] = r.Match
		case TierGlob:
			prefix := r.pattern.Prefix()
			t.globs[prefix] = append(t.globs[prefix], globRule{r.pattern, r.Match})
		case TierChannel:
			t.channels[r.Rule] = r.Match
		case TierDefault:
			t.fallback = r.Match
		}
	}
	for prefix := range t.globs {
		t.prefixes = append(t.prefixes, len(prefix))
	}
	slices.Sort(t.prefixes)
	t.prefixes = slices.Compact(t.prefixes)
	slices.Reverse(t.prefixes)
	return t, l.finish(rules)
}

// Resolve returns the rule for a sender, given as Message.SenderKey, on a channel instance; false if there is none. It does not
// allocate.
func (t *Table) Resolve(channel string, senderKey message.SenderKey) (Match, bool) {
	if m, ok := t.senders[string(senderKey)]; ok {
		return m, true
	}
	for _, n := range t.prefixes {
		if n > len(senderKey) {
			continue
		}
		for _, g := range t.globs[string(senderKey[:n])] {
			if g.pattern.Match(string(senderKey)) {
				return g.match, true
			}
		}
	}
	if m, ok := t.channels[channel]; ok {
		return m, true
	}
	return t.fallback, t.fallback.Agent != ""
}

// Agents returns the agents that may be chosen, sorted. The caller must not change the slice.
func (t *Table) Agents() []string { return t.agents }

// rule is a rule before it is added to the table.
type rule struct {
	Match
	key     []string      // in the configuration
	order   int           // in the file
	literal string        // TierSender: the id; TierGlob if open: the text before the stars
	open    bool          // TierGlob: a literal text followed only by stars
	pattern *glob.Pattern // TierGlob
}

// compare orders rules as Resolve tries them.
func (r rule) compare(other rule) int {
	c := cmp.Compare(rank(r.Tier), rank(other.Tier))
	if c == 0 && r.Tier == TierGlob {
		c = cmp.Or(
			-cmp.Compare(len(r.pattern.Prefix()), len(other.pattern.Prefix())),
			-cmp.Compare(r.pattern.Literals(), other.pattern.Literals()),
		)
	}
	return cmp.Or(c, cmp.Compare(r.order, other.order), strings.Compare(r.Rule, other.Rule))
}

func rank(t Tier) int { return slices.Index([]Tier{TierSender, TierGlob, TierChannel, TierDefault}, t) }
