package route

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/glob"
)

// Finding is an error in the rules, or a warning.
type Finding struct {
	config.Error
	Warning bool `json:"warning,omitempty"`
}

// Check returns the errors among the findings, for config.Load.
func Check(cfg *config.Config) config.Errors {
	_, findings := New(cfg)
	var errs config.Errors
	for _, f := range findings {
		if !f.Warning {
			errs = append(errs, f.Error)
		}
	}
	return errs
}

// Rules returns the valid rules of a configuration in the order in which they are tried, and findings about them.
func Rules(cfg *config.Config) ([]Match, []Finding) {
	l := newLint(cfg)
	rules := l.rules()
	out := make([]Match, len(rules))
	for i, r := range rules {
		out[i] = r.Match
	}
	return out, l.finish(rules)
}

// lint checks the rules of a configuration. It skips rules that config.Load reports itself (unknown agents and channels, invalid
// patterns).
type lint struct {
	cfg      *config.Config
	agents   []string
	findings []Finding
}

func newLint(cfg *config.Config) *lint {
	return &lint{cfg: cfg, agents: slices.Sorted(maps.Keys(cfg.Agents))}
}

// rules returns all rules in the order in which Resolve tries them.
func (l *lint) rules() []rule {
	var rules []rule
	add := func(r rule, agent, name string, key ...string) {
		if !slices.Contains(l.agents, agent) {
			return
		}
		r.Agent, r.Rule, r.Line, r.key, r.order = agent, name, l.cfg.Line(key...), key, l.cfg.Order(key...)
		rules = append(rules, r)
	}
	routing := l.cfg.Routing
	for pattern, agent := range routing.Senders {
		if r, ok := senderRule(pattern); ok {
			add(r, agent, pattern, "routing", "senders", pattern)
		}
	}
	for channel, agent := range routing.Channels {
		add(rule{Match: Match{Tier: TierChannel}}, agent, channel, "routing", "channels", channel)
	}
	add(rule{Match: Match{Tier: TierDefault}}, routing.DefaultAgent, "default_agent", "routing", "default_agent")
	slices.SortFunc(rules, rule.compare)
	return l.distinct(rules)
}

func senderRule(pattern string) (rule, bool) {
	compiled, err := glob.Compile(pattern)
	if err != nil || pattern == "" {
		return rule{}, false
	}
	if id, ok := literalOf(pattern); ok {
		return rule{Match: Match{Tier: TierSender}, literal: id}, true
	}
	r := rule{Match: Match{Tier: TierGlob}, pattern: compiled}
	if start := strings.TrimRight(pattern, "*"); start != pattern {
		r.literal, r.open = literalOf(start)
	}
	return r, true
}

// distinct drops rules for an id that has one already. The file cannot contain a key twice, but it can contain two spellings of one id.
func (l *lint) distinct(rules []rule) []rule {
	first := map[string]rule{}
	return slices.DeleteFunc(rules, func(r rule) bool {
		earlier, clash := first[r.literal]
		switch {
		case r.Tier != TierSender:
			return false
		case !clash:
			first[r.literal] = r
			return false
		case earlier.Agent != r.Agent:
			l.report(r, fmt.Sprintf("two rules for the sender %q", r.literal),
				fmt.Sprintf("%s says %q; keep one", scope(earlier), earlier.Agent))
		default:
			l.report(r, "duplicate rule", scope(earlier)+" is for the same sender; keep one")
		}
		return true
	})
}

// finish checks the ordered rules together and returns all findings.
func (l *lint) finish(rules []rule) []Finding {
	for i, r := range rules {
		for _, earlier := range rules[:i] {
			if covers(earlier, r) {
				l.report(r, "rule can never match", fmt.Sprintf("%s, %q, takes every message first", scope(earlier), earlier.Rule))
				break
			}
		}
	}
	l.pasted("owners", l.cfg.Access.Owners)
	l.pasted("members", l.cfg.Access.Members)
	for _, pattern := range slices.Sorted(maps.Keys(l.cfg.Routing.Senders)) {
		l.warnPasted(pattern, l.cfg.Line("routing", "senders", pattern), "routing", "senders", pattern)
	}
	l.nothing(rules)
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return a.Line - b.Line })
	return l.findings
}

// nothing warns if no rule names an agent and no policy routes, so that messages over channels and from the web page stay unanswered.
func (l *lint) nothing(rules []rule) {
	routes := func(p config.Policy) bool { return slices.Contains(p.Kinds, "route") && !p.Shadow }
	if len(rules) > 0 || len(l.agents) == 0 || len(l.cfg.Routing.Selectable) > 0 || slices.ContainsFunc(l.cfg.Policies, routes) {
		return
	}
	l.findings = append(l.findings, Finding{Warning: true, Error: config.Error{
		File: l.cfg.Path, Key: "routing", Problem: "no rule names an agent: nobody's messages are answered",
		Hint: fmt.Sprintf("write default_agent = %q under [routing]", l.agents[0]),
	}})
}

// covers reports whether an earlier rule provably matches all that r could: it is a literal text followed only by stars, and everything
// that r matches begins with that text. A channel's messages all begin with "channel:". Nothing covers the default, which is for the
// remaining messages.
func covers(earlier, r rule) bool {
	switch {
	case !earlier.open:
		return false
	case r.Tier == TierGlob:
		return strings.HasPrefix(r.pattern.Prefix(), earlier.literal)
	case r.Tier == TierChannel:
		return strings.HasPrefix(r.Rule+":", earlier.literal)
	}
	return false
}

func (l *lint) pasted(list string, patterns []string) {
	for i, pattern := range patterns {
		element := fmt.Sprintf("[%d]", i)
		l.warnPasted(pattern, l.cfg.Line("access", list, element), "access", list, element)
	}
}

func (l *lint) warnPasted(pattern string, line int, key ...string) {
	if !looksPasted(pattern) {
		return
	}
	l.findings = append(l.findings, Finding{Warning: true, Error: config.Error{
		File:    l.cfg.Path,
		Line:    line,
		Key:     config.KeyString(key...),
		Problem: "brackets are read as a glob",
		Hint:    fmt.Sprintf("if this is an id, write %q", Escape(pattern)),
	}})
}

func (l *lint) report(r rule, problem, hint string) {
	l.findings = append(l.findings, Finding{Error: config.Error{
		File: l.cfg.Path, Line: r.Line, Key: config.KeyString(r.key...), Problem: problem, Hint: hint,
	}})
}

func scope(r rule) string {
	if r.Line == 0 {
		return "the rule " + r.Rule
	}
	return fmt.Sprintf("line %d", r.Line)
}
