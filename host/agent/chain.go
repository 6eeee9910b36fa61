package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/tool"
)

// Delegation bounds delegation between agents.
type Delegation struct {
	MaxDepth  int           // length of a delegation chain, not counting the first agent
	MaxFanout int           // delegations of one turn
	Timeout   time.Duration // of one delegated turn
}

// chainAgent is an agent of a delegation chain, with the rights that it has at its position.
type chainAgent struct {
	transcript.Link
	agent *Agent
}

// delegated is the part of a child turn that other turns do not have.
type delegated struct {
	record transcript.Delegated
	above  []chainAgent    // the agents above it in the chain, the first one first
	parent *turn           // nil for a background child and when the parent is gone
	call   context.Context // of the parent's call, which bounds the child
	ending *ending         // set when the child has ended
}

// under returns the agent with the rights that remain to it while it works for parent: the intersection of both. depth counts the
// agents above.
func (a *Agent) under(parent *Agent, g *Generation, depth int) *Agent {
	c := *a
	c.Offered = parent.Offered.Intersect(a.Offered)
	c.Delegates = slices.DeleteFunc(slices.Clone(a.Delegates), func(n string) bool { return !slices.Contains(parent.Delegates, n) })
	if depth >= g.Delegation.MaxDepth || len(c.Delegates) == 0 {
		delete(c.Offered, DelegateTool)
		delete(c.Offered, ResultTool)
	}
	c.Tools = nil
	for _, t := range a.Tools {
		if c.Offered.Has(t.Name) {
			c.Tools = append(c.Tools, t)
		}
	}
	c.Tools = TellDelegates(c.Tools, c.Delegates)
	if parent.Sandboxed {
		stricter := a.Sandboxed && g.Strictness != nil && g.Strictness.Stricter(a.Sandbox, parent.Sandbox)
		if c.Sandboxed = true; !stricter {
			c.Sandbox = parent.Sandbox
		}
	}
	if parent.Approve != tool.ApproveNone {
		c.Approve = parent.Approve
	}
	return &c
}

// chainOf returns the agents of a chain with their rights, and the agent at its end.
func (g *Generation) chainOf(chain []transcript.Link, last string) (above []chainAgent, agent *Agent, err error) {
	for i, name := range append(names(chain), last) {
		a, ok := g.Agents[name]
		switch {
		case !ok:
			return nil, nil, plainError(fmt.Sprintf("agent %q is no longer configured", name))
		case agent == nil:
			agent = a
		case a.Kind == KindCLI:
			return nil, nil, plainError(fmt.Sprintf("agent %q runs an agent CLI with its own tools, which cannot be limited to the rights of agent %q", name, agent.Name))
		case !slices.Contains(agent.Delegates, name):
			return nil, nil, plainError(fmt.Sprintf("agent %q may no longer delegate to agent %q", agent.Name, name))
		default:
			agent = a.under(agent, g, i)
		}
		if i < len(chain) {
			above = append(above, chainAgent{chain[i], agent})
		}
	}
	return above, agent, nil
}

func names(chain []transcript.Link) []string {
	var out []string
	for _, l := range chain {
		out = append(out, l.Agent)
	}
	return out
}

// childKey prefixes the queue key of a child that runs beside its conversation. No channel name contains a slash.
const childKey = "child/"
