package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/tool"
)

// RulesOf returns the rules of a configuration for a provider's tools.
func RulesOf(c config.ToolProvider) Rules {
	r := Rules{
		Effect: tool.Effect(c.Effect), Approve: tool.Approve(c.Approve), Profiles: c.Profiles, Allow: c.Allow, Deny: c.Deny,
		Timeout: time.Duration(c.TimeoutSeconds) * time.Second, Tools: map[string]Rule{},
	}
	for name, t := range c.Tool {
		r.Tools[name] = Rule{
			Effect: tool.Effect(t.Effect), Approve: tool.Approve(t.Approve), Timeout: time.Duration(t.TimeoutSeconds) * time.Second, Rename: t.Rename,
		}
	}
	return r
}

// Check refuses providers whose tools would look like built-in ones.
func Check(c *config.Config, own *tool.Registry) config.Errors {
	var errs config.Errors
	families := families(own)
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if slices.Contains(families, name) {
			key := []string{"tools", name}
			errs = append(errs, config.Error{
				File: c.Path, Line: c.Line(key...), Key: config.KeyString(key...),
				Problem: fmt.Sprintf("%s.* are Flynn's own tools", name), Hint: "choose another name",
			})
		}
	}
	return errs
}

// families returns the first parts of the names of tools.
func families(r *tool.Registry) []string {
	var all []string
	for _, s := range r.List() {
		family, _, _ := strings.Cut(s.Name, ".")
		all = append(all, family)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Named reports whether a tool's name or pattern refers to the tools of a configured provider, which are known only while it runs.
func Named(c *config.Config, pattern string) bool {
	family, _, _ := strings.Cut(pattern, ".")
	_, ok := c.Tools[family]
	return ok
}
