package backend

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/store"
)

// Cluster are the hosts that share a store.
type Cluster struct {
	Store  store.Owners
	Member interface {
		Tell(address, digests string)
	}
	Listens interface{ Addr() net.Addr }
	Peers   interface {
		// Reach reports whether a host was reached when it was looked at last, at an address, and what the problem was.
		Reach(host string) (address, problem string, known bool)
	}
	Current  func() InForce
	Policies interface{ Status() []policy.Status }
	Log      *slog.Logger
}

var _ gateway.Cluster = Cluster{}

// shownTakeovers is how many takeovers people see.
const shownTakeovers = 20

// Cluster implements gateway.Cluster.
func (c Cluster) Cluster(ctx context.Context) (gateway.ClusterStatus, error) {
	out := gateway.ClusterStatus{Shared: c.Store.Shared(), Hosts: []gateway.ClusterHost{}, Takeovers: []gateway.Takeover{}}
	if !out.Shared {
		return out, nil
	}
	hosts, err := c.Store.Hosts(ctx)
	if err != nil {
		return out, err
	}
	takeovers, err := c.Store.Takeovers(ctx, shownTakeovers)
	if err != nil {
		return out, err
	}
	own := ""
	for _, h := range hosts {
		if h.Self {
			out.This, own = h.ID, h.Digests
		}
	}
	for _, h := range hosts {
		state := gateway.ClusterHost{
			Name: h.ID, Address: h.Address, Version: h.Version, Alive: h.Alive, Since: h.Since, Idle: string(h.Idle), Peer: h.Peer,
			Differs: h.Digests != own, Conversations: h.Conversations, Channels: h.Channels, Tasks: h.Singletons,
		}
		if at, problem, known := c.Peers.Reach(h.ID); known && h.Alive && at == h.Peer {
			if state.Reached, state.Unreached = "yes", problem; problem != "" {
				state.Reached = "no"
			}
		}
		out.Hosts = append(out.Hosts, state)
	}
	for _, t := range takeovers {
		out.Takeovers = append(out.Takeovers, gateway.Takeover(t))
	}
	return out, nil
}

// Known is Cluster for one who can do without it.
func (c Cluster) Known(ctx context.Context) gateway.ClusterStatus {
	s, err := c.Cluster(ctx)
	if err != nil && ctx.Err() == nil {
		c.Log.Warn("cannot list the hosts that share the store", "error", err)
	}
	return s
}

// shared returns an error if the store is not shared.
func (c Cluster) shared() error {
	if !c.Store.Shared() {
		return store.Conflict("this host shares its store with nobody: [cluster] host and [store] url_env in the configuration of each host have several share one")
	}
	return nil
}

// DrainHost implements gateway.Cluster.
func (c Cluster) DrainHost(ctx context.Context, name string, drained bool) error {
	if err := c.shared(); err != nil {
		return err
	}
	return unknownHost(name, c.Store.Drain(ctx, name, drained))
}

// RemoveHost implements gateway.Cluster.
func (c Cluster) RemoveHost(ctx context.Context, name string) error {
	if err := c.shared(); err != nil {
		return err
	}
	err := c.Store.Remove(ctx, name)
	if errors.Is(err, store.ErrOwned) {
		return store.Conflict(fmt.Sprintf("host %s is alive: stop it first, with SIGTERM or flynn service stop on its machine; flynn cluster drain %s only takes its work", name, name))
	}
	return unknownHost(name, err)
}

func unknownHost(name string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return store.NotFound(fmt.Sprintf("there is no host %q: flynn cluster status lists them", name))
	}
	return err
}

// AcceptConfiguration implements gateway.Cluster.
func (c Cluster) AcceptConfiguration(ctx context.Context) error {
	if err := c.shared(); err != nil {
		return err
	}
	return c.Store.Agree(ctx)
}

// tellEvery is the time between two looks at the policies and plugins in force.
const tellEvery = 5 * time.Second

// Run tells the other hosts what this one runs with until ctx ends.
func (c Cluster) Run(ctx context.Context) error {
	if !c.Store.Shared() {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.Tell()
		case <-ctx.Done():
			return nil
		}
	}
}

// Tell has the other hosts told where this one listens and what it runs with.
func (c Cluster) Tell() {
	if c.Store.Shared() {
		c.Member.Tell(c.Listens.Addr().String(), c.digests())
	}
}

// digests returns the digest of all that hosts which share a store must have in common: the configuration, the policies in force and the plugins
// that it names. The parts that come with Flynn are left out, so that hosts may be upgraded one after the other.
func (c Cluster) digests() string {
	cfg := c.Current().Config
	parts := []string{cfg.SharedDigest()}
	named := map[string]bool{} // policies that people have installed or given a path
	locked, err := configured.Store(cfg).List()
	for _, l := range locked {
		named[l.Name] = l.FirstParty == ""
	}
	own := map[string]bool{}
	for _, p := range cfg.Policies {
		own[p.Name] = p.Path != "" || named[cmp.Or(p.Policy, p.Name)]
	}
	for _, p := range c.Policies.Status() {
		if own[p.Name] {
			parts = append(parts, "policy "+p.Name+" "+p.File)
		}
	}
	plugins, more := plugin.OpenStore(cfg.Plugins.Dir)
	if more == nil {
		var installed []plugin.Locked
		if installed, more = plugins.List(); more == nil {
			parts = append(parts, pluginDigests(installed, pluginsOf(cfg))...)
		}
	}
	if err = errors.Join(err, more); err != nil {
		c.Log.Warn("cannot tell other hosts which policies and plugins this one has", "error", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\n"))))
}

func pluginsOf(c *config.Config) map[string]bool {
	used := map[string]bool{}
	for _, v := range c.Channels {
		used[v.Plugin] = true
	}
	for _, v := range c.Tools {
		used[v.Plugin] = true
	}
	for _, v := range c.Drivers {
		used[v.Plugin] = true
	}
	return used
}

// pluginDigests returns a line for each file of the plugins that are used.
func pluginDigests(installed []plugin.Locked, used map[string]bool) (lines []string) {
	for _, l := range installed {
		if !used[l.Name] || l.FirstParty != "" {
			continue
		}
		for file, sum := range l.Files {
			lines = append(lines, fmt.Sprintf("plugin %s %s %s %s", l.Name, l.Version, file, sum))
		}
	}
	slices.Sort(lines)
	return lines
}
