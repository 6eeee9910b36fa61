// Spending is a guard on what sessions use: tokens, money, turns, and tool calls in one turn.
//
// Each has a soft and a hard limit, for everybody or for a role. Beyond a soft one a person is asked before a tool runs that does
// more than read, and messages go to a cheaper agent; beyond a hard one tools are denied and messages are not answered.
//
// Rules:
//
//	1  beyond a hard limit
//	2  beyond a soft limit
//	3  the data cannot be read: the call is denied, the message not answered
package main

import "github.com/flynnhost/flynn/sdk/policy"

const (
	ruleHard = 1 + iota
	ruleSoft
	ruleData
)

func init() {
	policy.Route(route)
	policy.Tool(restrict)
}

func main() {}

func restrict(f policy.ToolFacts) policy.Restriction {
	found := judge(f.Facts, int64(f.CallsInTurn()))
	switch {
	case found.rule == ruleSoft && (f.Effect() == "read" || listed("free_tools", f.Tool())), found.rule == 0:
		return policy.Restriction{}
	case found.rule == ruleSoft:
		return policy.Restriction{Ask: true, Rule: ruleSoft, Reason: found.reason}
	}
	return policy.Restriction{Deny: true, Rule: found.rule, Reason: found.reason}
}

func route(f policy.RouteFacts) policy.RouteAnswer {
	found := judge(f.Facts, 0)
	switch found.rule {
	case 0:
		return policy.RouteAnswer{}
	case ruleSoft:
		agent, _ := policy.Data("soft_agent")
		if agent == "" || agent == f.Candidate() {
			return policy.RouteAnswer{}
		}
		return policy.RouteAnswer{Agent: agent, Rule: ruleSoft, Reason: found.reason}
	}
	return policy.RouteAnswer{Drop: true, Rule: found.rule, Reason: found.reason}
}

// finding is the strictest rule that holds.
type finding struct {
	rule   uint32
	reason string
}

// judge compares the usage with the limits. calls are those of the turn.
func judge(f policy.Facts, calls int64) finding {
	used := [...]struct {
		what string
		n    int64
	}{{"tokens", f.SessionTokens()}, {"cost", f.SessionCost()}, {"turns", int64(f.Turns())}, {"calls", calls}}
	var soft finding
	for _, u := range used {
		for _, kind := range [...]string{"hard", "soft"} {
			limit, key, state := limitOf(limitedAs(f.Role()), kind+"_"+u.what, u.what == "cost")
			switch {
			case state == unreadable:
				return finding{ruleData, key + " in the policy's data is no limit"}
			case state == unlimited || u.n < limit:
			case kind == "hard":
				return finding{ruleHard, "the limit " + key + " is reached"}
			case soft.rule == 0:
				soft = finding{ruleSoft, "the limit " + key + " is reached"}
			}
		}
	}
	return soft
}
