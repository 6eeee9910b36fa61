// Package assemble makes the agents that a configuration describes.
//
// Start with Assembler.Generation, which makes an agent.Generation out of a configuration and of what other areas have prepared
// (Parts). tools.go has Flynn's own tools and selects those that an agent is offered, program.go makes the agents of kind cli, and
// code.go those of kind code. The package starts nothing, keeps no state and decides nothing about a call; package host puts a
// generation in force.
package assemble

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/code"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/tool"
)

// Sandboxes knows the state of the engine; *fleet.Fleet implements it.
type Sandboxes interface {
	// AvailableFor returns why containers of these specifications are unavailable, or nil.
	AvailableFor(ctx context.Context, specs map[string]spec.Spec) error
}

// Config configures an Assembler. All fields are required.
type Config struct {
	Sandboxes Sandboxes
	// Code is the template of the code.run tool. Each agent has its own languages.
	Code code.Config
	Log  *slog.Logger
}

// Assembler makes generations.
type Assembler struct{ cfg Config }

// New returns an assembler.
func New(cfg Config) *Assembler { return &Assembler{cfg} }

// Parts are what other areas have made of the same configuration.
type Parts struct {
	Table    *route.Table
	Roles    *route.Roles
	Models   agent.Models
	Registry *tool.Registry
	Late     map[string][]string // see agent.Generation
	Persons  agent.Persons
	// Admission decides whose messages are answered in this generation.
	Admission agent.Admission
}

// Generation makes a configuration ready for turns.
func (a *Assembler) Generation(c *config.Config, p Parts) (*agent.Generation, error) {
	g := &agent.Generation{
		Number: c.Generation, Table: p.Table, Models: p.Models, Registry: p.Registry, Roles: p.Roles, Admission: p.Admission, Persons: p.Persons,
		Tasks: tasks(c), Late: p.Late,
		Queue: c.Sessions.Queue, Queues: queues(c), Idle: time.Duration(c.Sessions.IdleHours) * time.Hour,
		LocalFrontends: c.Sandbox.LocalFrontends, OnUnavailable: c.Sandbox.OnUnavailable,
		Delegation: agent.Delegation{MaxDepth: c.Delegation.MaxDepth, MaxFanout: c.Delegation.MaxFanout, Timeout: time.Duration(c.Delegation.Timeout)},
		Strictness: strictness{c}, Offline: offline(c), Names: slices.Sorted(maps.Keys(c.Agents)),
		Limits: agent.Limits{
			Steps: c.Budgets.StepsPerTurn, ToolCalls: c.Budgets.ToolCallsPerTurn, Tokens: c.Budgets.TokensPerTurn,
			Time: time.Duration(c.Budgets.TurnTimeoutSeconds) * time.Second,
		},
		Budgets: dailyBudgets(c.Budgets),
	}
	if c.Sandbox.Enabled {
		g.Sandboxes = append(slices.Sorted(maps.Keys(c.Sandboxes)), "")
	}
	var err error
	if g.Agents, err = a.agents(c, p.Registry); err != nil {
		return nil, err
	}
	for _, name := range g.Names {
		if made := g.Agents[name]; made.CLI != nil && made.CLI.Missing != "" {
			a.cfg.Log.Warn("an agent cannot answer", "agent", name, "reason", made.CLI.Name+" cannot run: "+made.CLI.Missing)
		}
	}
	return g, nil
}

// WithTools returns a generation of the same configuration with other tools. Its limits keep their counts.
func (a *Assembler) WithTools(g *agent.Generation, c *config.Config, tools *tool.Registry, late map[string][]string) (*agent.Generation, error) {
	next := *g
	next.Registry, next.Late = tools, late
	var err error
	next.Agents, err = a.agents(c, tools)
	return &next, err
}

func (a *Assembler) agents(c *config.Config, tools *tool.Registry) (map[string]*agent.Agent, error) {
	agents := make(map[string]*agent.Agent, len(c.Agents))
	for name := range c.Agents {
		made, err := a.agent(c, name, tools)
		if err != nil {
			return nil, err
		}
		agents[name] = made
	}
	return agents, nil
}

func (a *Assembler) agent(c *config.Config, name string, tools *tool.Registry) (*agent.Agent, error) {
	from := c.Agents[name]
	offered, err := offeredTools(tools, from)
	if err != nil {
		return nil, fmt.Errorf("agent_configs.%s: %w", name, err)
	}
	if !c.Tasks.ToolSummaries {
		delete(offered, tool.ReadResult) // there is no result to page
	}
	if len(c.Search) == 0 {
		delete(offered, config.WebSearch)
	}
	system := from.SystemPrompt
	if system == "" {
		system = c.SystemPrompt
	}
	made := &agent.Agent{
		Window: window(c.Models[from.ModelTier]),
		Name:   name, Kind: from.Kind, System: system, Tier: from.ModelTier, Offered: offered, Approve: from.Approve,
		Tools: agent.TellDelegates(tools.ForModel(offered), from.Delegates), Delegates: from.Delegates,
		Tiers: windows(c, from), Queue: from.Queue,
		Budget:    budget.Amount{Tokens: int64(from.TokensPerDay), Cost: agent.Dollars(from.USDPerDay)},
		Sandboxed: c.Sandbox.Enabled && from.Sandbox.Enabled, Sandbox: from.Sandbox.Name,
	}
	switch from.Kind {
	case agent.KindCLI:
		err = WithProgram(made, c)
	case agent.KindCode:
		err = a.withCode(made, tools, c)
	}
	return made, err
}

// offline returns the names of the sandboxes whose programs have no access to a network. The services of a compose file have a network
// of their own.
func offline(c *config.Config) map[string]bool {
	names := map[string]bool{}
	set := specs.New(c)
	for _, name := range set.Names() {
		s, _ := set.Named(name)
		names[name] = s.Network == "none" && s.Compose == nil
	}
	return names
}

// strictness compares the sandboxes of a configuration.
type strictness struct{ *config.Config }

// Stricter implements agent.Strictness.
func (s strictness) Stricter(sandbox, other string) bool {
	a, known := s.named(sandbox)
	b, knownToo := s.named(other)
	return known && knownToo && a.Stricter(b)
}

// named returns the sandbox of that name; "" is [sandbox] itself.
func (s strictness) named(name string) (config.Sandbox, bool) {
	if name == "" {
		return s.Sandbox, true
	}
	named, ok := s.Sandboxes[name]
	return named, ok
}

// queues returns the queue modes that channels override.
func queues(c *config.Config) map[string]string {
	modes := map[string]string{}
	for name, ch := range c.Channels {
		modes[name] = ch.Queue
	}
	return modes
}

// dailyBudgets returns the budgets of senders, of the host, and of agents that are not configured.
func dailyBudgets(b config.Budgets) budget.Limits {
	limit := func(tokens int, usd float64) budget.Amount {
		return budget.Amount{Tokens: int64(tokens), Cost: agent.Dollars(usd)}
	}
	return budget.Limits{
		Sender: limit(b.SenderTokensPerDay, b.SenderUSDPerDay), Agent: limit(b.AgentTokensPerDay, b.AgentUSDPerDay),
		Host: limit(b.HostTokensPerDay, b.HostUSDPerDay),
	}
}
