// Package inforce holds what is in force: a configuration with all that is made of it, for turns and for the admission of messages.
//
// Start with Current: Make prepares a Generation, and Exchange puts it in force together with its policies. rules.go answers what other areas ask
// about the generation in force. The package starts nothing.
package inforce

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/assemble"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/providers"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/provider"
	"github.com/flynnhost/flynn/host/tool/search"
)

// Generation is a prepared configuration: all that a turn and the admission of a message need of it.
type Generation struct {
	*agent.Generation
	Config *config.Config
	Gate   *channel.Gate
	Scopes *route.Scopes
	Models *model.Set
	Search []*search.Service
}

// Feed is told that another configuration is in force; *feed.Feed implements it.
type Feed interface {
	Note(kind store.ChangeKind, id string)
}

// Parts are what generations are made with.
type Parts struct {
	Agents   *assemble.Assembler
	Tools    *provider.Set
	Policies *policy.Engine
	Proofs   *access.Proofs
	Pairings route.Pairings
	Sessions channel.Sessions
	Feed     Feed
	Events   *event.Bus
	Counts   *model.Counts
	Log      *slog.Logger
}

// Current is the generation in force. Its Parts are set before the first Make; from then on it is safe for concurrent use.
type Current struct {
	Parts

	pair sync.RWMutex // keeps the generation and the policies in force consistent
	now  atomic.Pointer[Generation]
}

var (
	_ agent.Generations    = (*Current)(nil)
	_ provider.Generations = (*Current)(nil)
)

// Load returns the generation in force; nil before the first one.
func (c *Current) Load() *Generation { return c.now.Load() }

// Store puts a generation in force beside the policies that are.
func (c *Current) Store(g *Generation) { c.now.Store(g) }

// Exchange puts a generation and its policies in force together. A mix of old and new could permit what both forbid: a tool that the old
// configuration leaves to a policy and the new one offers to nobody.
func (c *Current) Exchange(g *Generation, enforce func()) {
	c.pair.Lock()
	defer c.pair.Unlock()
	enforce()
	c.now.Store(g)
}

// InForce implements agent.Generations: it returns the generation and the policies with which a turn begins.
func (c *Current) InForce() (*agent.Generation, agent.Policies) {
	c.pair.RLock()
	defer c.pair.RUnlock()
	return c.Load().Generation, c.Policies.Pin()
}

// Make prepares a configuration. It starts nothing.
func (c *Current) Make(cfg *config.Config) (*Generation, error) {
	table, findings := route.New(cfg)
	for _, f := range findings {
		c.Log.Warn("routing", "problem", f.Error.Error()) // only warnings: errors have kept the file out
	}
	roles := route.NewRoles(cfg.Access, c.Proofs.Under(cfg)).With(c.Pairings).WithClients(cfg.Clients)
	options := model.Options{Providers: providers.All(), Log: c.Log, Events: c.Events, Counts: c.Counts}
	if before := c.Load(); before != nil {
		options.Before = before.Models
	}
	models, err := model.NewSet(cfg.Models, options)
	if err != nil {
		return nil, err
	}
	scopes := route.NewScopes(cfg.Sessions, roles)
	g := &Generation{Config: cfg, Scopes: scopes, Models: models, Search: search.New(cfg), Gate: channel.NewGate(channel.GateConfig{
		Config: cfg, Roles: roles, Scopes: scopes, Sessions: c.Sessions, Now: time.Now, Events: c.Events,
	})}
	late := c.Tools.Late(cfg) // before the registry is made
	g.Generation, err = c.Agents.Generation(cfg, assemble.Parts{
		Table: table, Roles: roles, Models: models, Registry: c.Tools.Registry(cfg), Late: late, Persons: scopes, Admission: g.Gate,
	})
	return g, err
}

// Refresh implements provider.Generations. Turns that have begun keep the tools that they began with.
func (c *Current) Refresh() {
	for {
		g := c.Load()
		if g == nil {
			return // before the first configuration, which asks the providers itself
		}
		next, err := c.withTools(g)
		if err != nil {
			c.Log.Error("cannot offer the tools of providers", "error", err)
			return
		}
		if c.now.CompareAndSwap(g, next) {
			c.Feed.Note(store.Configuration, "")
			c.Log.Info("tools of providers are offered", "generation", next.Number, "tools", len(next.Registry.List()))
			return
		}
	}
}

// withTools returns g with the tools that providers offer now.
func (c *Current) withTools(g *Generation) (*Generation, error) {
	next := *g
	late := c.Tools.Late(g.Config) // before the registry is made
	var err error
	next.Generation, err = c.Agents.WithTools(g.Generation, g.Config, c.Tools.Registry(g.Config), late)
	return &next, err
}

// Waiting implements provider.Generations.
func (c *Current) Waiting() *config.Config {
	if g := c.Load(); len(g.Late) > 0 {
		return g.Config
	}
	return nil
}
