package author

import "github.com/flynnhost/flynn/host/policy"

// RouteFacts are the facts of a case of the kind route.
func (c Case) RouteFacts() policy.RouteFacts { return c.route() }

// ToolFacts are the facts of a case of the kind tool.
func (c Case) ToolFacts() policy.ToolFacts { return c.tool() }
