package lint

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flynnhost/flynn/host/config"
)

// Networks finds allowlists that are not used, and sandboxes that can reach the host itself.
func Networks(c *config.Config) []config.Error {
	l := &linter{cfg: c}
	inherited := false // another sandbox uses the allowlist of [sandbox]
	for _, name := range slices.Sorted(maps.Keys(c.Sandboxes)) {
		s, at := c.Sandboxes[name], []string{"sandboxes", name}
		own := c.Has("sandboxes", name, "allowlist")
		inherited = inherited || !own && s.Network == "allowlist"
		if own {
			l.unread(s.Network, s.Allowlist, at...)
		}
		if c.Has("sandboxes", name, "network") {
			l.open(s, at...)
		}
	}
	if !inherited {
		l.unread(c.Sandbox.Network, c.Sandbox.Allowlist, "sandbox")
	}
	l.open(c.Sandbox, "sandbox")
	for _, name := range l.agents() {
		if a := c.Agents[name]; a.Kind == "code" {
			l.unread(a.Code.Network, a.Code.Allowlist, "agent_configs", name, "code")
		}
	}
	return l.sorted()
}

func (l *linter) unread(network string, list []string, at ...string) {
	if len(list) > 0 && network != "allowlist" {
		l.at(fmt.Sprintf("it is not used, because network is %q", network), `write network = "allowlist" beside it, or remove it`, append(at, "allowlist")...)
	}
}

func (l *linter) open(s config.Sandbox, at ...string) {
	if l.cfg.Sandbox.Enabled && s.Network == "host" {
		l.at("commands reach all that listens on this machine, Flynn's gateway and other services of localhost included",
			`write network = "bridge", or "allowlist" with the hosts that are needed`, append(at, "network")...)
	}
}

// at reports a finding about a key.
func (l *linter) at(problem, hint string, key ...string) {
	l.findings = append(l.findings, config.Error{File: l.cfg.Path, Line: l.cfg.Line(key...), Key: config.KeyString(key...), Problem: problem, Hint: hint})
}
