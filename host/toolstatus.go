package host

import (
	"maps"
	"slices"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/tool/provider"
)

// toolStatus is a provider of tools for people: the host's rules beside what the provider claims.
func (b backend) toolStatus(g *generation, p plugin.Status) gateway.ToolsStatus {
	s := gateway.ToolsStatus{
		Name: p.Name, Plugin: p.Plugin, State: string(p.State), Detail: pluginDetail(p), OK: p.State == plugin.Ready, Tools: []gateway.ToolStatus{},
	}
	list, problems := b.h.tools.Provider(p.Name).Describe(provider.RulesOf(g.config.Tools[p.Name]))
	s.Problems = problems
	for _, t := range list {
		one := gateway.ToolStatus{
			Name: t.Name, Own: t.Own, Effect: string(t.Effect), Approve: t.Approve, Profiles: t.Profiles, Agents: []string{}, Claims: t.Claims,
			Says: t.Says, Digest: t.Digest, Was: t.Was, Changed: t.Changed,
		}
		for _, name := range slices.Sorted(maps.Keys(g.Agents)) {
			if g.Agents[name].Offered.Has(t.Name) {
				one.Agents = append(one.Agents, name)
			}
		}
		s.Tools = append(s.Tools, one)
	}
	return s
}
