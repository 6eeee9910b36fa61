package host

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/model/providers"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/tool"
)

// generation is a configuration made ready: everything that a turn and the admission of a message need of it.
type generation struct {
	*agent.Generation
	config *config.Config
	gate   *channel.Gate
	scope  *route.Scope
	models *model.Set
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
	late := h.lateFor(c) // before the tools are looked at
	scope := route.NewScope(c.Sessions, roles)
	gate := channel.NewGate(channel.GateConfig{
		Config: c, Roles: roles, Scope: scope, Sessions: h.fleet.Quota(), Now: time.Now, Observe: h.metrics.admission,
	})
	g := &generation{config: c, gate: gate, scope: scope, models: models, Generation: &agent.Generation{
		Number: c.Generation, Table: table, Models: models, Registry: h.toolsOf(c), Roles: roles, Admits: gate.Refusal, Tasks: tasksOf(c),
		Queue: c.Sessions.Queue, Queues: queues(c), Idle: time.Duration(c.Sessions.IdleHours) * time.Hour,
		LocalDoors: c.Sandbox.LocalFrontends, OnUnavailable: c.Sandbox.OnUnavailable,
		Delegation: delegation(c), Stricter: stricter(c),
		Agents: map[string]*agent.Agent{}, Names: slices.Sorted(maps.Keys(c.Agents)),
		Limits: agent.Limits{
			Steps: c.Budgets.StepsPerTurn, ToolCalls: c.Budgets.ToolCallsPerTurn, Tokens: c.Budgets.TokensPerTurn,
			Time: time.Duration(c.Budgets.TurnTimeoutSeconds) * time.Second,
		},
		Budgets: dailyBudgets(c.Budgets), Late: late,
	}}
	g.Persons = g.scope.Persons
	if c.Sandbox.Enabled {
		g.Sandboxes = append(slices.Sorted(maps.Keys(c.Sandboxes)), "")
	}
	g.Offline = map[string]bool{"": offline(c.Sandbox)}
	for name, s := range c.Sandboxes {
		g.Offline[name] = offline(s)
	}
	for _, name := range specs.CLIAgents(c) {
		g.Offline[specs.CLIName(name)] = specs.CLI(c, name).Network == "none"
	}
	for name, a := range c.Agents {
		if g.Agents[name], err = h.newAgent(g.Registry, c, name, a); err != nil {
			return nil, err
		}
		if made := g.Agents[name]; made.CLI != nil && made.CLI.Missing != "" {
			h.log.Warn("an agent cannot answer", "agent", name, "reason", made.CLI.Name+" cannot run: "+made.CLI.Missing)
		}
	}
	return g, nil
}

// offline reports whether nothing that a sandbox's programs print can come from a network. Services of a compose file have one of
// their own.
func offline(s config.Sandbox) bool { return s.Network == "none" && s.Compose == "" }

func (h *Host) newAgent(tools *tool.Registry, c *config.Config, name string, a config.Agent) (*agent.Agent, error) {
	offered, err := offeredTools(tools, a)
	if err != nil {
		return nil, fmt.Errorf("agent_configs.%s: %w", name, err)
	}
	if !c.Tasks.ToolSummaries {
		delete(offered, tool.ReadResult) // there is nothing to read
	}
	system := a.SystemPrompt
	if system == "" {
		system = c.SystemPrompt
	}
	m := c.Models[a.ModelTier]
	made := &agent.Agent{
		Window: agent.Window(m.ContextWindow, m.MaxOutputTokens+m.Reasoning.Tokens()),
		Name:   name, Kind: a.Kind, System: system, Tier: a.ModelTier, Offered: offered, Approve: a.Approve,
		Tools: agent.TellDelegates(tools.ForModel(offered), a.Delegates), Delegates: a.Delegates,
		Tiers: windows(c, a), Queue: a.Queue,
		Budget:    budget.Amount{Tokens: int64(a.TokensPerDay), Cost: agent.Dollars(a.USDPerDay)},
		Sandboxed: c.Sandbox.Enabled && a.Sandbox.Enabled, Sandbox: a.Sandbox.Name,
	}
	if a.Kind == agent.KindCLI {
		return made, withCLI(made, c, name)
	}
	return made, h.equip(made, tools, a, c.Sandbox.Runtime)
}
