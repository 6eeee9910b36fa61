package host

import (
	"time"

	"github.com/flynnhost/flynn/host/agent/assemble"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/tool/elevate"
)

// Checks are what a configuration has to pass besides its own rules, in `flynn serve` and `flynn config check` alike.
func Checks() []config.Check {
	return []config.Check{route.Check, assemble.CheckTools, assemble.CheckPrograms, specs.Check, checkInstalled, elevate.Check}
}

// PolicySources are the policies of a configuration, as the engine takes them.
func PolicySources(c *config.Config) []policy.Source {
	var out []policy.Source
	for _, p := range c.Policies {
		out = append(out, policy.Source{
			Name: p.Name, Path: p.Path, Installed: installedPolicy(c, p.Policy), Kinds: p.Kinds, Data: p.Data,
			OnErrorAgent: p.OnErrorAgent, Isolation: p.Isolation, AllowOnError: p.DangerouslyAllowOnError, Agents: p.Agents, Channels: p.Channels,
			Shadow: p.Shadow, ShadowOf: p.ShadowOf,
			RevertAfter: p.RevertAfterFailures, Replay: policy.ReplayGate{
				On: p.MaxChange < 100 || p.MaxLoosened < 100, Change: p.MaxChange.Share(), Loosened: p.MaxLoosened.Share(),
			},
			Limits: policy.Limits{
				Fuel: p.Limits.Fuel, Memory: int64(p.Limits.Memory), Depth: p.Limits.Depth, HostCalls: p.Limits.HostCalls,
				Wall: time.Duration(p.Limits.Wall),
			},
		})
	}
	return out
}
