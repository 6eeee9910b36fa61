package backend

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/assemble"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/sdk/cut"
)

// Agents are the agents of the configuration in force.
type Agents struct {
	Current  func() InForce
	Runner   *agent.Runner
	Machines interface {
		// AsOfNow returns why a sandbox is unavailable now, or nil; it does not wait.
		AsOfNow(name string) error
		Spec(name string) (spec.Spec, bool)
	}
	Budgets interface {
		Today(ctx context.Context) (budget.Spent, error)
	}
}

var _ gateway.Agents = Agents{}

// Agents implements gateway.Agents.
func (a Agents) Agents(context.Context) ([]gateway.AgentSummary, error) {
	now := a.Current()
	var out []gateway.AgentSummary
	for _, name := range now.Names {
		out = append(out, agentSummary(now, name))
	}
	return out, nil
}

func agentSummary(now InForce, name string) gateway.AgentSummary {
	made, c := now.Agents[name], now.Config.Agents[name]
	s := gateway.AgentSummary{
		Name: name, Kind: cmp.Or(c.Kind, agent.KindChat), Default: now.Config.Routing.DefaultAgent == name, Tier: c.ModelTier,
		Model: now.Config.Models[c.ModelTier].Title(), Profile: c.ToolProfile, Tools: len(made.Offered), Waits: now.Late[name],
	}
	if made.CLI != nil { // an agent CLI has a model and tools of its own
		s.Tier, s.Model, s.Profile, s.Missing = "", "", "", made.CLI.Missing
	}
	if made.Programs != nil {
		s.Tools++ // the one that runs a program
	}
	if made.Sandboxed {
		s.Sandbox = cmp.Or(made.Sandbox, "default")
	}
	return s
}

// Agent implements gateway.Agents.
func (a Agents) Agent(ctx context.Context, name string) (gateway.AgentDetail, error) {
	now := a.Current()
	made, ok := now.Agents[name]
	if !ok {
		return gateway.AgentDetail{}, store.NotFound(fmt.Sprintf("no agent %.64q", name))
	}
	spent, err := a.Budgets.Today(ctx)
	if err != nil {
		return gateway.AgentDetail{}, err
	}
	tools, err := a.tools(ctx, now, name)
	if err != nil {
		return gateway.AgentDetail{}, err
	}
	c := now.Config.Agents[name]
	d := gateway.AgentDetail{
		AgentSummary: agentSummary(now, name), System: made.System, SystemLength: utf8.RuneCountInString(made.System), Window: made.Window,
		Tiers: append([]string{}, assemble.Tiers(c)...), Offered: tools, Approve: c.Approve, Elevated: c.Elevated, Queue: c.Queue,
		Delegates: append([]string{}, c.Delegates...), DelegatedBy: []string{}, Where: a.sandbox(made),
		Budget: gateway.NewBudget(name, spent.Agents[name], made.Budget, len(unpricedTiers(now.Config)) > 0),
		Memory: gateway.AgentMemory{Tools: []string{}, Extract: now.Config.Memory.Extract, Recall: now.Config.Memory.Recall, MaxNotes: now.Config.Memory.MaxNotes},
	}
	for _, t := range tools {
		if strings.HasPrefix(t.Name, "memory.") && t.Provider == "" {
			d.Memory.Tools = append(d.Memory.Tools, t.Name)
		}
	}
	for _, other := range now.Names {
		if slices.Contains(now.Config.Agents[other].Delegates, name) {
			d.DelegatedBy = append(d.DelegatedBy, other)
		}
	}
	if slices.Contains(now.Config.Routing.Selectable, name) {
		d.SelectableBy = c.SelectableBy
	}
	return d, nil
}

// maxSays bounds the description of a tool in an answer, in bytes.
const maxSays = 300

func (a Agents) tools(ctx context.Context, now InForce, name string) ([]gateway.AgentTool, error) {
	list, err := a.Runner.Usual(ctx, now.Generation, name)
	if err != nil {
		return nil, err
	}
	out := []gateway.AgentTool{}
	for _, t := range list {
		out = append(out, gateway.AgentTool{
			Name: t.Spec.Name, Effect: string(t.Spec.Effect), Provider: t.Spec.Provider, Says: cut.Head(t.Spec.Description, maxSays),
			Channel: toolUsual(t.Channel), Local: toolUsual(t.Local),
		})
	}
	return out, nil
}

func toolUsual(d tool.Outlook) gateway.ToolUsual {
	return gateway.ToolUsual{Action: string(d.Action), Where: d.Where, Reasons: append([]string{}, d.Reasons...)}
}

// sandbox is nil for an agent whose tools run on the host.
func (a Agents) sandbox(made *agent.Agent) *gateway.AgentSandbox {
	if !made.Sandboxed {
		return nil
	}
	s, _ := a.Machines.Spec(made.Sandbox)
	s = s.WithDefaults()
	out := &gateway.AgentSandbox{
		Name: cmp.Or(made.Sandbox, "default"), Available: true, Image: cmp.Or(s.Dockerfile, s.Image), Network: s.Network,
		Allowlist: append([]string{}, s.Allowlist...),
		Memory:    s.MemoryBytes, Disk: s.DiskBytes, CPUs: s.CPUs, Pids: s.PidsLimit, Seconds: int(s.Timeout.Seconds()), Runtime: s.Runtime,
	}
	if err := a.Machines.AsOfNow(made.Sandbox); err != nil {
		out.Available, out.Detail = false, machine.Reason(err)
	}
	return out
}
