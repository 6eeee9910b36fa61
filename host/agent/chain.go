package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/tool"
)

// Delegation bounds the work that agents give each other.
type Delegation struct {
	MaxDepth  int           // length of a chain, the agent that was spoken to not counted
	MaxFanout int           // delegations of one turn
	Timeout   time.Duration // of one delegated turn
}

// working is an agent of a delegation chain, with the rights that it has itself at its place there.
type working struct {
	transcript.Link
	agent *Agent
}

// delegated says for which agents a child works. A turn of a conversation has none.
type delegated struct {
	record transcript.Delegated
	above  []working       // the agents of the chain, the first one first
	parent *turn           // nil where that runs no more: a background child's
	call   context.Context // of the parent, within which the child runs
	ending *ending         // what came of it, once it has ended
}

// under is what is left of an agent's rights while it works for another one: of each right, what both have. Depth counts the
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

// chainOf finds the agents of a chain, each with the rights that it has there, and the one at its end.
func (g *Generation) chainOf(chain []transcript.Link, last string) (above []working, agent *Agent, err error) {
	for i, name := range append(names(chain), last) {
		a, ok := g.Agents[name]
		switch {
		case !ok:
			return nil, nil, plainError(fmt.Sprintf("agent %q is no longer configured", name))
		case agent == nil:
			agent = a
		case a.Kind == KindCLI:
			return nil, nil, plainError(fmt.Sprintf("agent %q runs a program with tools of its own, which cannot be held to the rights of agent %q", name, agent.Name))
		case !slices.Contains(agent.Delegates, name):
			return nil, nil, plainError(fmt.Sprintf("agent %q may no longer give work to agent %q", agent.Name, name))
		default:
			agent = a.under(agent, g, i)
		}
		if i < len(chain) {
			above = append(above, working{chain[i], agent})
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

// childLane begins the lane of a child that runs beside its conversation; no channel's name has a slash.
const childKey = "child/"
