package host

import (
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/assemble"
	"github.com/flynnhost/flynn/host/agent/code"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/channel/attachments"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/providers"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/tool/elevate"
)

// generation is a configuration made ready: everything that a turn and the admission of a message need of it.
type generation struct {
	*agent.Generation
	config *config.Config
	gate   *channel.Gate
	scope  *route.Scope
	models *model.Set
}

// newAssembler returns what makes the agents of a configuration.
func (h *Host) newAssembler() *assemble.Assembler {
	return assemble.New(assemble.Config{
		Sandboxes: h.fleet, Log: h.log,
		Code: code.Config{
			Sandboxes: h.fleet, Media: h.files, Events: &h.events, Log: h.log,
			Attachments: code.Folder{Workspaces: h.fleet, Name: attachments.Dir},
		},
	})
}

// newGeneration makes a configuration ready. It starts nothing.
func (h *Host) newGeneration(c *config.Config) (*generation, error) {
	table, findings := route.New(c)
	for _, f := range findings {
		h.log.Warn("routing", "problem", f.Error.Error()) // errors of the file have kept it out
	}
	roles := route.NewRoles(c.Access, h.proofs.Under(c)).With(h.pairings).WithClients(c.Clients)
	options := model.Options{Providers: providers.All(), Log: h.log, OnCall: h.metrics.modelCall, Counts: &h.counts}
	if before := h.current.Load(); before != nil {
		options.Before = before.models
	}
	models, err := model.NewSet(c.Models, options)
	if err != nil {
		return nil, err
	}
	scope := route.NewScope(c.Sessions, roles)
	g := &generation{config: c, scope: scope, models: models, gate: channel.NewGate(channel.GateConfig{
		Config: c, Roles: roles, Scope: scope, Sessions: h.fleet.Quota(), Now: time.Now, Observe: h.metrics.admission,
	})}
	late := h.tools.Late(c) // before the registry is made
	g.Generation, err = h.agents.Generation(c, assemble.Parts{
		Table: table, Roles: roles, Models: models, Registry: h.tools.Registry(c), Late: late, Persons: scope.Persons, Admits: g.gate.Refusal,
	})
	return g, err
}

// withTools is g with the tools that are offered now.
func (h *Host) withTools(g *generation) (*generation, error) {
	next := *g
	late := h.tools.Late(g.config) // before the registry is made
	var err error
	next.Generation, err = h.agents.WithTools(g.Generation, g.config, h.tools.Registry(g.config), late)
	return &next, err
}

// gates are those of elevated mode in the configuration in force.
func (h *Host) gates() elevate.Gates {
	g := h.current.Load()
	return elevate.Gates{Config: g.config, Roles: g.Roles}
}
