// Package assemble makes the agents that a configuration describes.
//
// Start with Assembler.Generation: it makes of a configuration, and of what other areas have made of it (Parts), the agent.Generation that a
// turn begins with. tools.go has Flynn's own tools and which of them an agent is offered, program.go the agents of kind cli, code.go those of
// kind code. The package starts nothing, keeps nothing and decides nothing about a call; the wiring puts a generation in force.
package assemble

import (
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

// Sandboxes knows what the engine can do now; *fleet.Fleet implements it.
type Sandboxes interface {
	// AvailableFor returns why containers of these specifications cannot be had now, or nil.
	AvailableFor(specs map[string]spec.Spec) error
}

// Config is what an Assembler works with. All of it is required.
type Config struct {
	Sandboxes Sandboxes
	// Code is what the tool of agents of kind code is made from. The languages are those of each agent.
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
	// Admission is who is answered in this generation.
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

// WithTools returns a generation of the same configuration with other tools. Its limits go on counting.
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
		delete(offered, tool.ReadResult) // there is nothing to read
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

// offline returns the sandboxes whose programs can print nothing that comes from a network, by name. The services of a compose file have a
// network of their own.
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

// named is a sandbox by its name, "" for [sandbox] itself.
func (s strictness) named(name string) (config.Sandbox, bool) {
	if name == "" {
		return s.Sandbox, true
	}
	named, ok := s.Sandboxes[name]
	return named, ok
}

// queues are the modes that channels have of their own.
func queues(c *config.Config) map[string]string {
	modes := map[string]string{}
	for name, ch := range c.Channels {
		modes[name] = ch.Queue
	}
	return modes
}

// dailyBudgets are those of senders and of the host, and of agents that are not configured.
func dailyBudgets(b config.Budgets) budget.Limits {
	limit := func(tokens int, usd float64) budget.Amount {
		return budget.Amount{Tokens: int64(tokens), Cost: agent.Dollars(usd)}
	}
	return budget.Limits{
		Sender: limit(b.SenderTokensPerDay, b.SenderUSDPerDay), Agent: limit(b.AgentTokensPerDay, b.AgentUSDPerDay),
		Host: limit(b.HostTokensPerDay, b.HostUSDPerDay),
	}
}
