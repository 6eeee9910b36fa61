package lint

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
)

// sandboxKey is the key in a policy's data for the sandbox that it demands; all policies that come with Flynn have it.
const sandboxKey = "sandbox"

// sandbox finds demands that cannot be satisfied, as far as the data show.
func (l *linter) sandbox(i int, s policy.Source) {
	name := s.Data[sandboxKey]
	if name == "" || !slices.Contains(s.Kinds, policy.KindTool) {
		return
	}
	if _, known := l.cfg.Sandboxes[name]; !known {
		l.report(i, fmt.Sprintf("no sandbox %q: calls that the policy puts there are denied", name),
			nearest(name, slices.Sorted(maps.Keys(l.cfg.Sandboxes))), "data", sandboxKey)
		return
	}
	for j, earlier := range l.sources[:i] {
		if other := earlier.Data[sandboxKey]; other != "" && other != name && slices.Contains(earlier.Kinds, policy.KindTool) {
			l.conflict(i, j, fmt.Sprintf("their data name the sandboxes %q and %q", other, name), "data", sandboxKey)
		}
	}
	for _, agent := range l.agents() {
		own := l.cfg.Agents[agent].Sandbox
		if own.Enabled && l.cfg.Sandbox.Enabled && own.Name != name && l.places(s, []string{agent}) {
			l.report(i, fmt.Sprintf("agent %s has its own sandbox, %s: calls that the policy puts into %q are denied", agent, place(own), name),
				"leave the policy's sandbox out, which means the agent's own, or give it other agents", "data", sandboxKey)
		}
	}
}

func place(s config.SandboxRef) string {
	if s.Name == "" {
		return "[sandbox]"
	}
	return fmt.Sprintf("%q", s.Name)
}

// conflict reports two policies that demand different sandboxes, if both can be asked about one call.
func (l *linter) conflict(i, j int, how string, key ...string) {
	if where, ok := l.overlap(l.sources[i], l.sources[j], l.agents()); ok {
		l.report(i, fmt.Sprintf("it and policy %q demand different sandboxes (%s; %s): a call that both put into one is denied", l.sources[j].Name, how, where),
			"give both the same sandbox, or other agents or channels", key...)
	}
}
