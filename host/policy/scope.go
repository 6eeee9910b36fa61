package policy

import (
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/internal/glob"
)

// scope says for which agents and channels a policy is asked. A policy with a nil scope is asked for all.
type scope struct{ agents, channels []*glob.Pattern }

// newScope compiles the globs of a source, which were checked. If one does not compile, the policy is asked everywhere, which loosens
// nothing.
func newScope(s Source) *scope {
	if len(s.Agents) == 0 && len(s.Channels) == 0 {
		return nil
	}
	agents, err := compileAll("agents", s.Agents)
	channels, err2 := compileAll("channels", s.Channels)
	if err != nil || err2 != nil {
		return nil
	}
	return &scope{agents, channels}
}

func compileAll(key string, patterns []string) ([]*glob.Pattern, error) {
	var out []*glob.Pattern
	for _, p := range patterns {
		g, err := glob.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		out = append(out, g)
	}
	return out, nil
}

// covers reports whether the policy is asked about an agent on a channel instance. The agent of a routing decision is that of the
// static table, "" if it has none.
func (s *scope) covers(agent, channel string) bool {
	return s == nil || matchesAny(s.agents, agent) && matchesAny(s.channels, channel)
}

func matchesAny(patterns []*glob.Pattern, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p *glob.Pattern) bool { return p.Match(name) })
}

// Covers reports whether the policy would be asked about an agent on a channel instance.
func (s Source) Covers(agent, channel string) bool { return newScope(s).covers(agent, channel) }

func (s Source) checkScope() error {
	if _, err := compileAll("agents", s.Agents); err != nil {
		return err
	}
	_, err := compileAll("channels", s.Channels)
	return err
}
