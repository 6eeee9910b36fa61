package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// checker judges a whole configuration: what single values cannot tell. Each method reports what it finds and goes on.
type checker struct {
	*decoder
	cfg        *Config
	getenv     func(string) string
	secretless bool // secrets may be missing
}

func (c *checker) all() {
	c.references(nil, reflect.ValueOf(c.cfg).Elem(), field{})
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
	c.policies()
	c.policyTrust()
	c.pluginTrust()
	c.gateway()
	c.clients()
	c.media()
	c.access()
	c.approvals()
	c.elevated()
	c.telemetry()
	c.schedules()
}

// references checks that each value of a field with the tag ref names something that the file configures.
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

// LocalDoors are the channel instances where a person sits at this machine.
func LocalDoors() []string { return []string{"terminal", "web"} }

// OwnDoors are the channel instances that every Flynn has: the local doors, those for programs, and that of the schedules.
func OwnDoors() []string { return append(LocalDoors(), "mcp", "openai", "schedule") }

// ChannelNames are the names of all channel instances, the host's own doors included, sorted.
func (c *Config) ChannelNames() []string {
	names := append(OwnDoors(), sorted(c.Channels)...)
	slices.Sort(names)
	return slices.Compact(names)
}

// names checks what owners call things. Names become parts of keys ("channel:conversation:agent"), of file names and
// of container labels.
func (c *checker) names() {
	for _, name := range sorted(c.cfg.Agents) {
		c.name(keyPath{"agent_configs", name}, name)
	}
	for _, name := range sorted(c.cfg.Sandboxes) {
		c.name(keyPath{"sandboxes", name}, name)
		if slices.Contains(placesOfOurOwn(), name) {
			c.report(keyPath{"sandboxes", name}, fmt.Sprintf("%q means a place of its own where a call is approved", name), "choose another name")
		}
	}
	for _, name := range sorted(c.cfg.Channels) {
		c.name(keyPath{"channels", name}, name)
		if slices.Contains(OwnDoors(), name) {
			c.report(keyPath{"channels", name}, fmt.Sprintf("%q is a door of the host's own and needs no channel", name), "choose another name")
		}
	}
	for _, name := range sorted(c.cfg.Tools) {
		c.toolProviderName(keyPath{"tools", name}, name)
	}
	for i, p := range c.cfg.Policies {
		if p.Name != "" {
			c.name(policyPath(i, "name"), p.Name)
		}
	}
}

// placesOfOurOwn are what people read for the host and for [sandbox] itself: who approves a call in one place must not have
// approved it in another.
func placesOfOurOwn() []string { return []string{"host", "sandbox"} }

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
