package config

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
)

func (c *checker) policies() {
	first := map[string]int{}
	for i := range c.cfg.Policies {
		c.nameBoth(&c.cfg.Policies[i])
		p := c.cfg.Policies[i]
		c.required(policyPath(i, "name"), p.Name, `"a-name-of-yours"`)
		if p.Policy != "" && p.Path != "" {
			c.report(policyPath(i, "policy"), "both path and policy are set", "name a file by path, or an installed policy by policy")
		}
		if len(p.Kinds) == 0 && p.Policy == "" {
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

// nameBoth completes a policy that is not a file: its name and that of the installed policy are the same unless both are given.
func (c *checker) nameBoth(p *Policy) {
	if p.Path == "" {
		p.Policy = cmp.Or(p.Policy, p.Name)
		p.Name = cmp.Or(p.Name, p.Policy)
	}
}

// policyScope checks the keys that narrow a policy or let calls past it.
func (c *checker) policyScope(i int, p Policy) {
	c.globs(policyPath(i, "agents"), p.Agents)
	c.globs(policyPath(i, "channels"), p.Channels)
	if p.DangerouslyAllowOnError && len(p.Kinds) > 0 && !slices.Contains(p.Kinds, "tool") {
		c.report(policyPath(i, "dangerously_allow_on_error"), "is for tool policies",
			"for a route policy, on_error_agent names who answers when it fails")
	}
}

// keyBytes is the length of an ed25519 public key.
const keyBytes = 32

// trust checks a table of keys; what is the name of the command that makes them.
func (c *checker) trust(table, what string, t Trust) {
	for i, key := range t.Keys {
		digits, ok := strings.CutPrefix(key, "ed25519:")
		raw, err := base64.StdEncoding.Strict().DecodeString(digits)
		if !ok || err != nil || len(raw) != keyBytes || strings.ContainsAny(digits, "\r\n") {
			at := keyPath{table, "keys"}
			c.report(at.index(i), fmt.Sprintf("%.80q is not a key", key), "write ed25519: and 44 characters, as flynn "+what+" dev keygen prints it")
		}
	}
	if t.RequireSignature && len(t.Keys) == 0 {
		c.report(keyPath{table, "require_signature"}, "without keys no signature is accepted", "write the accepted keys under keys")
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
		c.report(at, path+" is not a regular file", "name a .wasm file")
	}
}
