package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// Cluster are the hosts that share a store.
type Cluster struct {
	Store store.Owners
	// Parts are the policies and plugins, and Configuration is the rest of what this host runs with.
	Parts, Configuration Accepting
	Peers                interface {
		// Reach reports whether a host was reached when it was looked at last, at an address, and what the problem was.
		Reach(host string) (address, problem string, known bool)
	}
	Log *slog.Logger
}

// Accepting is what hosts agree on.
type Accepting interface {
	// Accept makes what this host has of it what the hosts agree on.
	Accept(ctx context.Context) error
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
	if err := c.Parts.Accept(ctx); err != nil {
		return err
	}
	return c.Configuration.Accept(ctx)
}
