package assemble

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/builtin"
	"github.com/flynnhost/flynn/host/tool/provider"
)

// OwnTools returns a registry with Flynn's own tools.
func OwnTools(c builtin.Config) (*tool.Registry, error) {
	r := tool.NewRegistry()
	if err := builtin.Register(r, c); err != nil {
		return nil, err
	}
	for _, t := range agent.DelegationTools() {
		if err := r.RegisterOwn(t); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// offeredTools returns the tools of an agent's profile and overrides. The delegation tools are offered only to an agent that has
// delegates.
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

// CheckTools reports overrides that match no tool. A misspelt deny would silently leave a tool open.
func CheckTools(c *config.Config) config.Errors {
	if len(c.Tools) == 0 && !slices.ContainsFunc(slices.Collect(maps.Values(c.Agents)), overrides) {
		return nil // without overrides no schema need be compiled
	}
	known, err := OwnTools(builtin.Unconnected())
	if err != nil {
		return config.Errors{{File: c.Path, Problem: err.Error()}}
	}
	var names []string
	for _, s := range known.List() {
		names = append(names, s.Name)
	}
	errs := provider.Check(c, known)
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		o := c.Agents[name].ToolOverrides
		for _, list := range []struct {
			key   string
			names []string
		}{{"allow", o.Allow}, {"deny", o.Deny}} {
			for _, unknown := range known.UnknownNames(tool.Overrides{Allow: list.names}) {
				if provider.Named(c, unknown) {
					continue
				}
				key := []string{"agent_configs", name, "tool_overrides", list.key}
				e := config.Error{
					File: c.Path, Line: c.Line(key...), Key: config.KeyString(key...), Problem: fmt.Sprintf("no tool %q", unknown),
				}
				if near := config.Nearest(unknown, names); near != "" {
					e.Hint = fmt.Sprintf("did you mean %q?", near)
				}
				errs = append(errs, e)
			}
		}
	}
	return errs
}

func overrides(a config.Agent) bool { return len(a.ToolOverrides.Allow)+len(a.ToolOverrides.Deny) > 0 }
