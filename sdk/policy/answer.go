package policy

import "github.com/flynnhost/flynn/sdk/policy/abi"

// RouteAnswer is the answer of a routing hook. The zero value abstains: the next policy decides, and after the last one the static table's
// candidate is used.
type RouteAnswer struct {
	Agent  string // this agent answers; it must be one of RouteFacts.Agents
	Drop   bool   // nobody answers
	Rule   uint32 // number of the rule that decided, for explanations; 24 bits
	Reason string // for people
}

// Restriction is the answer of a tool hook. The zero value restricts nothing; policies can only add restrictions, never remove those of
// another one.
type Restriction struct {
	Deny        bool
	Ask         bool   // a person has to approve
	Sandbox     bool   // the call runs in a sandbox
	SandboxName string // this sandbox; implies Sandbox. "" means the agent's own or the default one
	Rule        uint32 // number of the rule that decided, for explanations; 24 bits
	Reason      string // for people
}

// invalid is an answer that the host treats as a failure of the policy: a tool call is denied, and a route falls back to the agent
// configured for errors. It is not a decision of either hook.
const invalid = 0xff

// encode writes the answer's output frame to the start of region and returns the hook's result.
func (a RouteAnswer) encode(region []byte) int64 {
	switch {
	case a.Agent != "" && a.Drop:
		return invalid
	case a.Agent != "":
		return pack(abi.RouteAgent, a.Rule, region, abi.OutAgent, a.Agent, a.Reason)
	case a.Drop:
		return pack(abi.RouteDrop, a.Rule, region, 0, "", a.Reason)
	}
	return pack(abi.RouteAbstain, a.Rule, region, 0, "", a.Reason)
}

func (r Restriction) encode(region []byte) int64 {
	var verdict int64
	if r.Deny {
		verdict |= abi.ToolDeny
	}
	if r.Ask {
		verdict |= abi.ToolAsk
	}
	if r.Sandbox || r.SandboxName != "" {
		verdict |= abi.ToolSandbox
	}
	return pack(verdict, r.Rule, region, abi.OutSandbox, r.SandboxName, r.Reason)
}

func pack(verdict int64, rule uint32, region []byte, id abi.Field, name, reason string) int64 {
	head := verdict | int64(min(rule, 1<<24-1))<<8
	if name == "" && reason == "" {
		return head
	}
	n, ok := writeOutput(region, id, name, reason)
	if !ok {
		return invalid
	}
	return head | int64(n)<<32
}
