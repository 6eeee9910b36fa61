package host

import (
	"context"
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
	"github.com/flynnhost/flynn/host/plugin/instances"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/provider"
	"github.com/flynnhost/flynn/host/tool/provider/sandboxed"
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
			h.log.Error("cannot offer the tools of providers", "error", err)
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
	late := h.lateFor(g.config) // before the tools are looked at, so that one that comes meanwhile is there
	inner.Registry, inner.Agents, inner.Late = h.toolsOf(g.config), map[string]*agent.Agent{}, late
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

// toolPatience is how long after the start of the host work waits for the tools of providers that have not come up.
const toolPatience = time.Minute

// late are the providers whose tools may still come up: those that have not said which they have, unless they are not started or given up.
func (h *Host) late(c *config.Config) []string {
	if time.Since(h.started) >= toolPatience {
		return nil
	}
	known := map[string]plugin.State{}
	for _, s := range h.plugins.Status() {
		known[s.Name] = s.State
	}
	var late []string
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if !c.Tools[name].Enabled || h.provider(name).Listed() {
			continue
		}
		state, added := known[name]
		if h.toolsSet.Load() && (!added || state == plugin.Quarantined || state == plugin.Disabled) {
			continue
		}
		late = append(late, name)
	}
	return late
}

// lateFor are, by agent, the late providers whose tools it or one of its delegates may be offered.
func (h *Host) lateFor(c *config.Config) map[string][]string {
	late := h.late(c)
	if len(late) == 0 {
		return nil
	}
	out := map[string][]string{}
	for name := range c.Agents {
		team := []string{name}
		for i := 0; i < len(team); i++ {
			for _, d := range c.Agents[team[i]].Delegates {
				if !slices.Contains(team, d) {
					team = append(team, d)
				}
			}
		}
		for _, p := range late {
			offers := func(agent string) bool {
				a := c.Agents[agent] // which tools an override names is not known before they are there
				return slices.Contains(c.Tools[p].Profiles, a.ToolProfile) || len(a.ToolOverrides.Allow) > 0
			}
			if slices.ContainsFunc(team, offers) {
				out[name] = append(out[name], p)
			}
		}
	}
	return out
}

// awaitTools lets the work go on that waits for tools of a plugin which is given up, or waited for no longer; a provider that comes up does
// so itself.
func (h *Host) awaitTools(ctx context.Context) error {
	again := time.NewTicker(lateEvery)
	defer again.Stop()
	for {
		g := h.current.Load()
		if len(g.Late) > 0 && len(h.late(g.config)) == 0 {
			h.refreshTools()
		}
		if time.Since(h.started) >= toolPatience && len(h.current.Load().Late) == 0 {
			return nil // a reload finds none any more
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// lateEvery is how often awaitTools looks at plugins that may have been given up.
const lateEvery = 100 * time.Millisecond

// setTools brings the running providers in line with a configuration. Their rules are no matter of the process: they are in force
// with the generation.
func (h *Host) setTools(old, next *config.Config) {
	var before map[string]config.ToolProvider
	if old != nil {
		before = old.Tools
	}
	instances.Set(h.plugins, h.log, toolInstances{h}, before, next.Tools)
	h.toolsSet.Store(true)
	if len(next.Tools) > 0 {
		h.refreshTools() // a list may have changed while the configuration was made ready
	}
}

// toolInstances are the providers of tools, whose servers may run in sandboxes.
type toolInstances struct{ h *Host }

func (toolInstances) Enabled(c config.ToolProvider) bool { return c.Enabled }
func (toolInstances) Same(a, b config.ToolProvider) bool { return sameProcess(a, b) }
func (t toolInstances) Ended(name string)                { t.h.servers.Remove(name) }
func (t toolInstances) Instance(name string, c config.ToolProvider) (plugin.Instance, plugin.Handler, error) {
	i := plugin.Instance{
		Name: name, Plugin: c.Plugin, Kind: plugin.Tools, Settings: c.Settings, Secrets: instances.Reveal(c.Secrets),
		Grant: plugin.Grant{Read: c.Read, Write: c.Write, Network: c.Network, Memory: int64(c.MemoryLimit)},
	}
	err := t.h.startServer(name, c, &i)
	return i, t.h.provider(name), err
}

// startServer starts the server of a provider where it belongs in a sandbox, and gives its plugin the socket to it.
func (h *Host) startServer(name string, c config.ToolProvider, i *plugin.Instance) error {
	if !c.Sandbox.Enabled {
		return nil
	}
	server, err := c.Server()
	if err != nil {
		return err
	}
	socket, err := h.servers.Add(name, c.Sandbox.Name, sandboxed.Command(server))
	if err != nil {
		return err
	}
	i.Settings, i.Grant.Sockets = c.Reach(socket), []string{socket}
	return nil
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

// ofProvider reports whether an override is about the tools of a configured provider, which are known only while it runs.
func ofProvider(c *config.Config, override string) bool {
	family, _, _ := strings.Cut(override, ".")
	_, ok := c.Tools[family]
	return ok
}
