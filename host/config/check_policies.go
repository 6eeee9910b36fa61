package config

import (
	"fmt"
	"os"
	"slices"
)

func (c *checker) policies() {
	first := map[string]int{}
	for i, p := range c.cfg.Policies {
		c.required(policyPath(i, "name"), p.Name, `"a-name-of-yours"`)
		c.required(policyPath(i, "path"), p.Path, `"policies/NAME.wasm"`)
		if len(p.Kinds) == 0 {
			c.report(policyPath(i, "kinds"), "missing", `write kinds = ["route"], ["tool"] or both`)
		}
		if earlier, ok := first[p.Name]; ok && p.Name != "" {
			c.report(policyPath(i, "name"), fmt.Sprintf("two policies are named %q", p.Name), fmt.Sprintf("the first is in line %d", earlier))
		} else {
			first[p.Name] = c.lines.line(policyPath(i, "name"))
		}
		c.policyFile(policyPath(i, "path"), p.Path)
		c.policyShadow(i, p)
		c.policyScope(i, p)
	}
}

// policyScope checks what narrows a policy or lets calls past it.
func (c *checker) policyScope(i int, p Policy) {
	for key, patterns := range map[string][]string{"agents": p.Agents, "channels": p.Channels} {
		for n, pattern := range patterns {
			c.glob(policyPath(i, key).index(n), pattern)
		}
	}
	if p.DangerouslyAllowOnError && len(p.Kinds) > 0 && !slices.Contains(p.Kinds, "tool") {
		c.report(policyPath(i, "dangerously_allow_on_error"), "is for tool policies",
			"who answers when a route policy fails is said by on_error_agent")
	}
}

func (c *checker) policyFile(at keyPath, path string) {
	if path == "" {
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		c.report(at, fmt.Sprintf("%s: %v", path, cause(err)), "paths count from the folder of the configuration file")
	case !info.Mode().IsRegular():
		c.report(at, path+" is no regular file", "name a .wasm file")
	}
}
