package host

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flynnhost/flynn/host/channel/attachments"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// Checks are what a configuration has to pass besides its own rules, in `flynn serve` and `flynn config check` alike.
func Checks() []config.Check {
	return []config.Check{route.Check, checkTools, checkCLIs, specs.Check, configured.Check, checkElevated}
}

// checkTools finds overrides that fit no tool: a misspelt deny would leave a tool open without a word.
func checkTools(c *config.Config) config.Errors {
	if len(c.Tools) == 0 && !slices.ContainsFunc(slices.Collect(maps.Values(c.Agents)), overrides) {
		return nil // and compile no schemas for nothing at every start
	}
	known := tool.NewRegistry()
	if err := registerTools(known, builtin.Config{Memory: struct{ store.Memory }{}, Keep: (*attachments.Files)(nil).Keep}); err != nil {
		return config.Errors{{File: c.Path, Problem: err.Error()}}
	}
	var names []string
	for _, s := range known.List() {
		names = append(names, s.Name)
	}
	errs := checkProviders(c, known)
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		o := c.Agents[name].ToolOverrides
		for _, list := range []struct {
			key   string
			names []string
		}{{"allow", o.Allow}, {"deny", o.Deny}} {
			for _, unknown := range known.UnknownNames(tool.Overrides{Allow: list.names}) {
				if ofProvider(c, unknown) {
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
