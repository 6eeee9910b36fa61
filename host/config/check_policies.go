package config

import (
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
)

func (c *checker) policies() {
	first := map[string]int{}
	for i, p := range c.cfg.Policies {
		c.required(policyPath(i, "name"), p.Name, `"a-name-of-yours"`)
		switch {
		case p.Policy == "":
			c.required(policyPath(i, "path"), p.Path, `"policies/NAME.wasm"`)
		case p.Path != "":
			c.report(policyPath(i, "policy"), "both path and policy are set", "name a file by path, or an installed policy by policy")
		}
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

// keyBytes is the length of an ed25519 public key.
const keyBytes = 32

func (c *checker) policyTrust() {
	c.trust("policy_trust", "policy", c.cfg.Trust.Keys, c.cfg.Trust.RequireSignature)
}

func (c *checker) pluginTrust() {
	c.trust("plugin_trust", "plugin", c.cfg.PluginTrust.Keys, c.cfg.PluginTrust.RequireSignature)
}

// trust checks a table of keys; what is the command that makes them.
func (c *checker) trust(table, what string, keys []string, required bool) {
	for i, key := range keys {
		digits, ok := strings.CutPrefix(key, "ed25519:")
		raw, err := base64.StdEncoding.Strict().DecodeString(digits)
		if !ok || err != nil || len(raw) != keyBytes || strings.ContainsAny(digits, "\r\n") {
			at := keyPath{table, "keys"}
			c.report(at.index(i), fmt.Sprintf("%.80q is no key", key), "write ed25519: and 44 characters, as flynn "+what+" keygen prints it")
		}
	}
	if required && len(keys) == 0 {
		c.report(keyPath{table, "require_signature"}, "no signature could ever count", "write the keys that do under keys")
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
