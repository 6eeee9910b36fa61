package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// checker checks a whole configuration for errors that no single value shows. Each method reports its findings and goes on.
type checker struct {
	*decoder
	cfg        *Config
	getenv     func(string) string
	secretless bool // secrets may be missing
}

func (c *checker) all() {
	c.references(nil, reflect.ValueOf(c.cfg).Elem(), field{})
	c.ownFile()
	c.names()
	c.agents()
	c.projects()
	c.sandboxes()
	c.routing()
	c.selectable()
	c.sessions()
	c.models()
	c.budgets()
	c.compaction()
	c.channels()
	c.toolProviders()
	c.drivers()
	c.policies()
	c.trust("policy_trust", "policy", c.cfg.Trust)
	c.trust("plugin_trust", "plugin", c.cfg.PluginTrust)
	c.gateway()
	c.clients()
	c.media()
	c.access()
	c.approvals()
	c.elevated()
	c.telemetry()
	c.schedules()
	c.search()
	c.store()
	c.cluster()
	c.backup()
}

// references checks that each value of a field with the tag ref names an agent or a tier of the file.
func (c *checker) references(at keyPath, v reflect.Value, f field) {
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			c.references(at.child(f.key), v.Field(f.index), f)
		}
	case reflect.Map:
		for _, key := range slices.Sorted(maps.Keys(stringKeys(v))) {
			c.references(at.child(key), v.MapIndex(reflect.ValueOf(key)), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.references(at.index(i), v.Index(i), f)
		}
	case reflect.String:
		c.reference(at, v.String(), f.ref)
	}
}

func stringKeys(v reflect.Value) map[string]bool {
	keys := map[string]bool{}
	for _, key := range v.MapKeys() {
		keys[key.String()] = true
	}
	return keys
}

func (c *checker) reference(at keyPath, name, kind string) {
	switch {
	case kind == "" || name == "" && !c.lines.has(at):
	case kind == "agent":
		if _, ok := c.cfg.Agents[name]; !ok {
			c.report(at, fmt.Sprintf("no agent %q", name), didYouMean(name, sorted(c.cfg.Agents)))
		}
	case kind == "tier":
		if _, ok := c.cfg.Models[name]; !ok {
			c.report(at, fmt.Sprintf("no model tier %q", name), didYouMean(name, sorted(c.cfg.Models)))
		}
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// LocalFrontends are the channel instances whose user sits at this machine.
func LocalFrontends() []string { return []string{"terminal", "web"} }

// BuiltinChannels are the channel instances that every Flynn has: the local frontends, the console of people who are signed in, those for
// API clients, and that of the schedules.
func BuiltinChannels() []string { return slices.Clone(builtinChannels) }

var builtinChannels = append(LocalFrontends(), "console", "mcp", "openai", "schedule")

// BuiltinChannel reports whether a channel instance is one of BuiltinChannels.
func BuiltinChannel(name string) bool { return slices.Contains(builtinChannels, name) }

// ChannelNames are the names of all channel instances, built-in ones included, sorted.
func (c *Config) ChannelNames() []string {
	names := append(BuiltinChannels(), sorted(c.Channels)...)
	slices.Sort(names)
	return slices.Compact(names)
}

// names checks the names in the file. They become parts of keys ("channel:conversation:agent"), of file names and
// of container labels.
func (c *checker) names() {
	for _, name := range sorted(c.cfg.Agents) {
		c.name(keyPath{"agent_configs", name}, name)
	}
	for _, name := range sorted(c.cfg.Sandboxes) {
		c.name(keyPath{"sandboxes", name}, name)
		if slices.Contains(reservedSandboxes(), name) {
			c.report(keyPath{"sandboxes", name}, fmt.Sprintf("%q is reserved: approvals show it for the host or for [sandbox]", name), "choose another name")
		}
	}
	for _, name := range sorted(c.cfg.Channels) {
		c.name(keyPath{"channels", name}, name)
		if BuiltinChannel(name) {
			c.report(keyPath{"channels", name}, fmt.Sprintf("%q is built in and needs no channel", name), "choose another name")
		}
	}
	for _, name := range sorted(c.cfg.Tools) {
		c.toolProviderName(keyPath{"tools", name}, name)
	}
	for _, name := range sorted(c.cfg.Drivers) {
		c.driverName(keyPath{"drivers", name}, name)
	}
	for i, p := range c.cfg.Policies {
		if p.Name != "" {
			c.name(policyPath(i, "name"), p.Name)
		}
	}
}

// reservedSandboxes are the names that an approval shows for the host and for [sandbox] itself: an approval for one machine must not
// hold for another of the same name.
func reservedSandboxes() []string { return []string{"host", "sandbox"} }

const (
	nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	maxName     = 64
)

func (c *checker) name(at keyPath, name string) {
	switch {
	case len(name) > maxName:
		c.report(at, "name is too long", fmt.Sprintf("at most %d characters", maxName))
	case name == "" || strings.Trim(name, nameLetters+"-_") != "" || !strings.Contains(nameLetters, name[:1]):
		c.report(at, fmt.Sprintf("bad name %q", name), "use letters, digits, - and _, with a letter or digit first")
	}
}

// required reports an empty value of a key that has no default.
func (c *checker) required(at keyPath, value, example string) {
	if value == "" {
		c.report(at, "missing", fmt.Sprintf("write %s = %s", at.last(), example))
	}
}
