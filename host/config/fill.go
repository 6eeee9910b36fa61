package config

import (
	"path/filepath"
	"slices"
	"strconv"
)

// fill sets the defaults that depend on other values or on the environment; all others are in the schema.
func (d *decoder) fill(cfg *Config, getenv func(string) string) {
	d.fillStore(cfg, getenv)
	if len(cfg.Models) == 0 && !d.lines.has(keyPath{"models"}) {
		cfg.Models = map[string]Model{"default": defaultModel()}
	}
	for name, agent := range cfg.Agents {
		if !d.lines.has(keyPath{"agent_configs", name, "sandbox"}) {
			agent.Sandbox = SandboxRef{Enabled: cfg.Sandbox.Enabled}
			cfg.Agents[name] = agent
		}
	}
	d.fillBudgets(cfg)
	d.fillImage(keyPath{"sandbox"}, &cfg.Sandbox)
	for name, sandbox := range cfg.Sandboxes {
		d.fillImage(keyPath{"sandboxes", name}, &sandbox)
		// Naming a sandbox enables it; only an explicit false disables it.
		if !d.lines.has(keyPath{"sandboxes", name, "enabled"}) {
			sandbox.Enabled = true
		}
		// Containers that wait cost memory, so each kind of them must be asked for.
		if !d.lines.has(keyPath{"sandboxes", name, "warm_pool"}) {
			sandbox.WarmPool = 0
		}
		cfg.Sandboxes[name] = sandbox
	}
	for i := range cfg.Policies {
		p := &cfg.Policies[i]
		if p.Isolation == "" {
			p.Isolation = defaultIsolation(p.Kinds)
		}
		// A bound on changes does not permit changes that loosen restrictions.
		if d.lines.has(policyPath(i, "max_change")) && !d.lines.has(policyPath(i, "max_loosened")) {
			p.MaxLoosened = 0
		}
	}
}

func defaultModel() Model {
	m := defaultsOf[Model]()
	m.Provider = "demo"
	return m
}

// defaultIsolation is warm only for policies that cannot decide on tools.
func defaultIsolation(kinds []string) string {
	if slices.Contains(kinds, "tool") {
		return "pure"
	}
	return "warm"
}

func (d *decoder) fillStore(cfg *Config, getenv func(string) string) {
	if cfg.Store.Dir == "" {
		cfg.Store.Dir = defaultStoreDir(getenv)
	}
	if cfg.Store.Dir == "" {
		d.report(keyPath{"store", "dir"}, "no folder for the store: neither HOME nor XDG_DATA_HOME is set", "write an absolute path")
		return
	}
	if cfg.Plugins.Dir == "" {
		cfg.Plugins.Dir = filepath.Join(cfg.Store.Dir, "plugins")
	}
	if cfg.Gateway.TokenFile == "" {
		cfg.Gateway.TokenFile = filepath.Join(cfg.Store.Dir, "gateway.token")
	}
}

// defaultStoreDir follows the XDG base directory specification: a relative XDG_DATA_HOME is ignored.
func defaultStoreDir(getenv func(string) string) string {
	if data := getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "flynn")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "flynn")
	}
	return ""
}

// policyPath is the path of a policy's key.
func policyPath(i int, key ...string) keyPath {
	return append(keyPath{"policies", "[" + strconv.Itoa(i) + "]"}, key...)
}

// PolicyKey is the path of a policy's key, for Line and KeyString.
func PolicyKey(i int, key ...string) []string { return policyPath(i, key...) }
