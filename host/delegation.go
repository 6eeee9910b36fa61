package host

import (
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// registerTools registers Flynn's own tools.
func registerTools(r *tool.Registry, c builtin.Config) error {
	if err := builtin.Register(r, c); err != nil {
		return err
	}
	for _, t := range agent.DelegationTools() {
		if err := r.RegisterOwn(t); err != nil {
			return err
		}
	}
	return nil
}

// offeredTools are those of an agent's profile and overrides. The tools of delegation come with the agents that it may give work to,
// and not without any.
func offeredTools(tools *tool.Registry, a config.Agent) (tool.Set, error) {
	own := []string{agent.DelegateTool, agent.ResultTool}
	allow := a.ToolOverrides.Allow
	if len(a.Delegates) > 0 {
		allow = append(own, allow...)
	}
	offered, err := tools.Offered(a.ToolProfile, tool.Overrides{Allow: allow, Deny: a.ToolOverrides.Deny})
	if err == nil && len(a.Delegates) == 0 {
		for _, name := range own {
			delete(offered, name)
		}
	}
	return offered, err
}

// delegation is what a configuration says of delegating, for the turns of a generation.
func delegation(c *config.Config) agent.Delegation {
	return agent.Delegation{MaxDepth: c.Delegation.MaxDepth, MaxFanout: c.Delegation.MaxFanout, Timeout: time.Duration(c.Delegation.Timeout)}
}

// stricter compares the sandboxes of a configuration by their names, "" for [sandbox] itself.
func stricter(c *config.Config) func(sandbox, other string) bool {
	named := func(name string) (config.Sandbox, bool) {
		if name == "" {
			return c.Sandbox, true
		}
		s, ok := c.Sandboxes[name]
		return s, ok
	}
	return func(sandbox, other string) bool {
		a, known := named(sandbox)
		b, knownToo := named(other)
		return known && knownToo && a.Stricter(b)
	}
}
