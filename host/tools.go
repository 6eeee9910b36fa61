package host

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/provider"
	"github.com/flynnhost/flynn/host/tool"
)

// ledgerName is the file in the store's folder that remembers what tools said of themselves.
const ledgerName = "tools.json"

// provider returns the provider of an instance; it is made at its first mention and outlives its configuration, since turns that have
// begun keep its tools.
func (h *Host) provider(name string) *provider.Provider {
	h.tooling.Lock()
	defer h.tooling.Unlock()
	p, ok := h.providers[name]
	if !ok {
		p = provider.New(provider.Config{Name: name, Ledger: h.ledger, Log: h.log, Changed: h.refreshTools})
		h.providers[name] = p
	}
	return p
}

func openLedger(c *config.Config) (*provider.Ledger, error) {
	return provider.OpenLedger(filepath.Join(c.Store.Dir, ledgerName))
}

// rules are what the configuration says of a provider's tools.
func rules(c config.ToolProvider) provider.Rules {
	r := provider.Rules{
		Effect: tool.Effect(c.Effect), Approve: tool.Approve(c.Approve), Profiles: c.Profiles, Allow: c.Allow, Deny: c.Deny,
		Timeout: time.Duration(c.TimeoutSeconds) * time.Second, Tools: map[string]provider.Rule{},
	}
	for name, t := range c.Tool {
		r.Tools[name] = provider.Rule{
			Effect: tool.Effect(t.Effect), Approve: tool.Approve(t.Approve), Timeout: time.Duration(t.TimeoutSeconds) * time.Second, Rename: t.Rename,
		}
	}
	return r
}

// toolsOf are Flynn's own tools and those that the providers of a configuration offer now. What cannot be registered is left out: a
// name that is taken stays with who had it, and Flynn's own tools come first.
func (h *Host) toolsOf(c *config.Config) *tool.Registry {
	all := h.registry.Clone()
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if !c.Tools[name].Enabled {
			continue
		}
		tools, problems := h.provider(name).Tools(rules(c.Tools[name]))
		for _, t := range tools {
			if err := all.Register(t); err != nil {
				problems = append(problems, err.Error())
			}
		}
		for _, p := range problems {
			h.log.Warn("tools of a provider", "provider", name, "problem", p)
		}
	}
	return all
}

// refreshTools offers to the turns to come what the providers offer now. Those that have begun keep what they began with.
func (h *Host) refreshTools() {
	for {
		g := h.current.Load()
		if g == nil {
			return // before the first configuration; it will ask the providers itself
		}
		next, err := h.withTools(g)
		if err != nil {
			h.log.Error("offer the tools of providers", "error", err)
			return
		}
		if h.current.CompareAndSwap(g, next) {
			h.log.Info("tools of providers are offered", "generation", next.Number, "tools", len(next.Registry.List()))
			return
		}
	}
}

// withTools is g with the tools that are offered now, and all else as it is: its limits go on counting.
func (h *Host) withTools(g *generation) (*generation, error) {
	next := *g
	inner := *g.Generation
	inner.Registry, inner.Agents = h.toolsOf(g.config), map[string]*agent.Agent{}
	for name, a := range g.config.Agents {
		made, err := h.newAgent(inner.Registry, g.config, name, a)
		if err != nil {
			return nil, err
		}
		inner.Agents[name] = made
	}
	next.Generation = &inner
	return &next, nil
}

// setTools brings the running providers in line with a configuration, as setChannels does with channels. Their rules are no matter of
// the process: they are in force with the generation.
func (h *Host) setTools(old, next *config.Config) {
	var before map[string]config.ToolProvider
	if old != nil {
		before = old.Tools
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if was := before[name]; was.Enabled && !sameProcess(was, next.Tools[name]) {
			if err := h.plugins.Remove(name); err != nil {
				h.log.Error("stop provider of tools", "provider", name, "error", err)
			}
			h.releaseServer(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(next.Tools)) {
		c := next.Tools[name]
		if sameProcess(before[name], c) {
			h.release(name)
		}
		if !c.Enabled || sameProcess(before[name], c) {
			continue
		}
		i := plugin.Instance{
			Name: name, Plugin: c.Plugin, Kind: plugin.Tools, Settings: c.Settings, Secrets: reveal(c.Secrets),
			Grant: plugin.Grant{Read: c.Read, Write: c.Write, Network: c.Network, Memory: int64(c.MemoryLimit)},
		}
		err := h.encloseServer(name, c, &i)
		if err == nil {
			err = h.plugins.Add(i, h.provider(name))
		}
		if err != nil {
			h.log.Error("start provider of tools", "provider", name, "error", err)
		}
	}
	if len(next.Tools) > 0 {
		h.refreshTools() // a list may have changed while the configuration was made ready
	}
}

func sameProcess(a, b config.ToolProvider) bool {
	return a.Plugin == b.Plugin && a.Enabled == b.Enabled && a.Sandbox == b.Sandbox && reflect.DeepEqual(a.Settings, b.Settings) &&
		maps.Equal(a.Secrets, b.Secrets) && slices.Equal(a.Read, b.Read) && slices.Equal(a.Write, b.Write) && slices.Equal(a.Network, b.Network) &&
		a.MemoryLimit == b.MemoryLimit
}

// ownFamilies are the first parts of the names of Flynn's own tools, which no provider may have.
func ownFamilies(known *tool.Registry) []string {
	var families []string
	for _, s := range known.List() {
		family, _, _ := strings.Cut(s.Name, ".")
		families = append(families, family)
	}
	slices.Sort(families)
	return slices.Compact(families)
}

// checkProviders refuses providers whose tools would look like Flynn's own.
func checkProviders(c *config.Config, known *tool.Registry) config.Errors {
	var errs config.Errors
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if slices.Contains(ownFamilies(known), name) {
			key := []string{"tools", name}
			errs = append(errs, config.Error{
				File: c.Path, Line: c.Line(key...), Key: config.KeyString(key...),
				Problem: fmt.Sprintf("%s.* are Flynn's own tools", name), Hint: "choose another name",
			})
		}
	}
	return errs
}

// ofProvider tells whether an override is about the tools of a configured provider, which are known only while it runs.
func ofProvider(c *config.Config, override string) bool {
	family, _, _ := strings.Cut(override, ".")
	_, ok := c.Tools[family]
	return ok
}
