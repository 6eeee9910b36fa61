package host

import (
	"context"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/assemble"
	"github.com/flynnhost/flynn/host/agent/code"
	"github.com/flynnhost/flynn/host/agent/schedule"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/channel/attachments"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/providers"
	"github.com/flynnhost/flynn/host/plugin/instances"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/elevate"
	"github.com/flynnhost/flynn/host/tool/provider"
)

// follow applies each new configuration that the holder accepts.
func (h *Host) follow(ctx context.Context) error {
	defer h.holder.Subscribe(h.stage)()
	return h.holder.Run(ctx, h.hangup)
}

// stage prepares a configuration beside the one in force. Turns that have begun keep theirs.
func (h *Host) stage(ctx context.Context, old, next *config.Config) (commit, rollback func(), err error) {
	if err := config.RestartNeeded(old, next); err != nil {
		return nil, nil, err
	}
	g, err := h.newGeneration(next)
	if err != nil {
		return nil, nil, err
	}
	enforce, forget, err := h.policies.Stage(ctx, configured.Live(next, h.log))
	if err != nil {
		return nil, nil, fmt.Errorf("stage policies: %w", err)
	}
	commit = func() {
		h.exchange(g, enforce) // turns that have begun keep the old one, whose idle connections close by themselves
		h.runner.Regroup()
		h.runner.Readmit()
		h.budgets.SetZone(next.Budgets.Zone())
		h.fleet.Configure(next)
		h.setChannels(old, next)
		h.setTools(old, next)
		h.schedules.Set(schedule.Entries(next))
		h.feed.Note(store.Configuration, "")
	}
	return commit, forget, nil
}

// exchange puts a generation and its policies in force together. A mix of old and new could permit what both forbid: a tool that the
// old configuration leaves to a policy and the new one offers to nobody.
func (h *Host) exchange(g *generation, enforce func()) {
	h.pair.Lock()
	defer h.pair.Unlock()
	enforce()
	h.current.Store(g)
}

// generations replaces the generation in force when the providers' tools change.
type generations struct{ *Host }

var _ provider.Generations = generations{}

// Refresh implements provider.Generations. Turns that have begun keep the tools that they began with.
func (h generations) Refresh() {
	for {
		g := h.current.Load()
		if g == nil {
			return // before the first configuration, which asks the providers itself
		}
		next, err := h.withTools(g)
		if err != nil {
			h.log.Error("cannot offer the tools of providers", "error", err)
			return
		}
		if h.current.CompareAndSwap(g, next) {
			h.feed.Note(store.Configuration, "")
			h.log.Info("tools of providers are offered", "generation", next.Number, "tools", len(next.Registry.List()))
			return
		}
	}
}

// Waiting implements provider.Generations.
func (h generations) Waiting() *config.Config {
	if g := h.current.Load(); len(g.Late) > 0 {
		return g.config
	}
	return nil
}

// inForce returns the generation and the policies with which a turn begins.
func (h *Host) inForce() (*agent.Generation, agent.Policies) {
	h.pair.RLock()
	defer h.pair.RUnlock()
	return h.current.Load().Generation, h.policies.Pin()
}

// generation is a prepared configuration: all that a turn and the admission of a message need of it.
type generation struct {
	*agent.Generation
	config *config.Config
	gate   *channel.Gate
	scopes *route.Scopes
	models *model.Set
}

// newAssembler returns the assembler of agents.
func (h *Host) newAssembler() *assemble.Assembler {
	return assemble.New(assemble.Config{
		Sandboxes: h.fleet, Log: h.log,
		Code: code.Config{
			Sandboxes: h.fleet, Media: h.files, Events: &h.events, Log: h.log,
			Attachments: code.Folder{Workspaces: h.fleet, Name: attachments.Dir},
		},
	})
}

// newGeneration prepares a configuration. It starts nothing.
func (h *Host) newGeneration(c *config.Config) (*generation, error) {
	table, findings := route.New(c)
	for _, f := range findings {
		h.log.Warn("routing", "problem", f.Error.Error()) // only warnings: errors have kept the file out
	}
	roles := route.NewRoles(c.Access, h.proofs.Under(c)).With(h.pairings).WithClients(c.Clients)
	options := model.Options{Providers: providers.All(), Log: h.log, Events: &h.events, Counts: &h.counts}
	if before := h.current.Load(); before != nil {
		options.Before = before.models
	}
	models, err := model.NewSet(c.Models, options)
	if err != nil {
		return nil, err
	}
	scopes := route.NewScopes(c.Sessions, roles)
	g := &generation{config: c, scopes: scopes, models: models, gate: channel.NewGate(channel.GateConfig{
		Config: c, Roles: roles, Scopes: scopes, Sessions: h.fleet.Quota(), Now: time.Now, Events: &h.events,
	})}
	late := h.tools.Late(c) // before the registry is made
	g.Generation, err = h.agents.Generation(c, assemble.Parts{
		Table: table, Roles: roles, Models: models, Registry: h.tools.Registry(c), Late: late, Persons: scopes, Admission: g.gate,
	})
	return g, err
}

// withTools returns g with the tools that providers offer now.
func (h *Host) withTools(g *generation) (*generation, error) {
	next := *g
	late := h.tools.Late(g.config) // before the registry is made
	var err error
	next.Generation, err = h.agents.WithTools(g.Generation, g.config, h.tools.Registry(g.config), late)
	return &next, err
}

// gates returns the settings of elevated mode in the configuration in force.
func (h *Host) gates() elevate.Gates {
	g := h.current.Load()
	return elevate.Gates{Config: g.config, Roles: g.Roles}
}

// setTools starts and stops tool providers after a change of the configuration.
func (h *Host) setTools(old, next *config.Config) {
	instances.Set(h.plugins, h.log, h.tools, old.Tools, next.Tools)
	h.tools.Started(next)
}
