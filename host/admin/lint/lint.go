// Package lint finds policies that cannot work, or cannot work together, and network settings of sandboxes that are probably not meant.
// None of these is an error of the file: the host would run with it.
//
// Start with All, which is the warnings of routes, Policies, which checks the configuration and the modules, and Networks; Chain runs the
// policies on their own cases, and Log reads what they have decided. A finding is a warning with its line, its key and what to do. The package changes nothing.
package lint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
)

// linter checks one configuration. sources are its policies, in the same order.
type linter struct {
	cfg      *config.Config
	sources  []policy.Source
	findings []config.Error
}

// All reports every finding that needs nothing but the configuration and its modules, those about routes included.
func All(c *config.Config, sources []policy.Source) []config.Error {
	out := []config.Error{}
	_, findings := route.New(c)
	for _, f := range findings {
		if f.Warning {
			out = append(out, f.Error)
		}
	}
	return slices.Concat(out, Policies(c, sources), Networks(c))
}

// Policies reports findings about the policies of a configuration. It reads their modules without running them.
func Policies(c *config.Config, sources []policy.Source) []config.Error {
	l := &linter{cfg: c, sources: sources}
	for i, s := range sources {
		l.module(i, s)
		l.scope(i, s)
		if s.AllowOnError {
			l.report(i, "calls pass this policy where it fails: a caller who can make it fail gets past it", "remove it, and calls are denied instead",
				"dangerously_allow_on_error")
		}
		l.sandbox(i, s)
	}
	return l.sorted()
}

func (l *linter) report(i int, problem, hint string, key ...string) {
	path := append([]string{"policies", "[" + strconv.Itoa(i) + "]"}, key...)
	line := l.cfg.Line(path...)
	if line == 0 { // the key is left out
		line = l.cfg.Line(path[0], path[1], "name")
	}
	l.findings = append(l.findings, config.Error{File: l.cfg.Path, Line: line, Key: config.KeyString(path...), Problem: problem, Hint: hint})
}

func (l *linter) sorted() []config.Error {
	slices.SortStableFunc(l.findings, func(a, b config.Error) int { return a.Line - b.Line })
	return l.findings
}

// module checks the file against the contract.
func (l *linter) module(i int, s policy.Source) {
	hooks, err := policy.Examine(s)
	switch missing := without(s.Kinds, hooks); {
	case err == nil:
	case len(hooks) > 0 && len(missing) > 0:
		l.report(i, fmt.Sprintf("the module decides %s and not %s: as it is, the policy fails closed", strings.Join(hooks, " and "), strings.Join(missing, " and ")),
			fmt.Sprintf("write kinds = %s, or build the module with the other", list(hooks)), "kinds")
	case s.Installed != nil:
		l.report(i, fmt.Sprintf("the module cannot be loaded, and the policy fails closed: %v", err), "", "policy")
	default:
		l.report(i, fmt.Sprintf("the module cannot be loaded, and the policy fails closed: %v", err), `build it again: "flynn policy dev build DIR"`, "path")
	}
}

func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// list formats strings as TOML does.
func list(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// scope finds globs that match nothing.
func (l *linter) scope(i int, s policy.Source) {
	agents := l.agents()
	for n, pattern := range s.Agents {
		one := policy.Source{Agents: []string{pattern}}
		if !slices.ContainsFunc(agents, func(a string) bool { return one.Covers(a, "") }) {
			l.report(i, fmt.Sprintf("no agent matches %q", pattern), nearest(pattern, agents), "agents", element(n))
		}
	}
	for n, pattern := range s.Channels {
		one := policy.Source{Channels: []string{pattern}}
		if !slices.ContainsFunc(l.cfg.ChannelNames(), func(c string) bool { return one.Covers("", c) }) {
			l.report(i, fmt.Sprintf("no channel matches %q", pattern), nearest(pattern, l.cfg.ChannelNames()), "channels", element(n))
		}
	}
	routed := l.candidates()
	if slices.Equal(s.Kinds, []string{policy.KindRoute}) && l.places(s, agents) && !l.places(s, routed) {
		l.report(i, "[routing] sends no message to these agents, so the policy is never asked",
			"the agent of a route policy is the one that [routing] names; these are: "+strings.Join(routed, ", "), "agents")
	}
}

func element(n int) string { return "[" + strconv.Itoa(n) + "]" }

func nearest(pattern string, names []string) string {
	if near := config.Nearest(pattern, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "these are: " + strings.Join(names, ", ")
}

// places reports whether a policy is asked about any of the agents on any channel.
func (l *linter) places(s policy.Source, agents []string) bool {
	return slices.ContainsFunc(agents, func(a string) bool {
		return slices.ContainsFunc(l.cfg.ChannelNames(), func(c string) bool { return s.Covers(a, c) })
	})
}

// overlap returns an agent and a channel where both policies are asked.
func (l *linter) overlap(a, b policy.Source, agents []string) (where string, ok bool) {
	for _, agent := range agents {
		for _, channel := range l.cfg.ChannelNames() {
			if a.Covers(agent, channel) && b.Covers(agent, channel) {
				return fmt.Sprintf("agent %s, channel %s", agent, channel), true
			}
		}
	}
	return "", false
}

func (l *linter) agents() []string {
	var names []string
	for name := range l.cfg.Agents {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// candidates returns the agents that the static table names.
func (l *linter) candidates() []string {
	var names []string
	if l.cfg.Routing.DefaultAgent != "" {
		names = append(names, l.cfg.Routing.DefaultAgent)
	}
	for _, rules := range []map[string]string{l.cfg.Routing.Channels, l.cfg.Routing.Senders} {
		for _, agent := range rules {
			names = append(names, agent)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
