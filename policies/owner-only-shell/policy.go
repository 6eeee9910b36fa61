// Owner-only-shell keeps commands and processes for the owner.
//
// Rules:
//
//	1  somebody who is not on the list of roles calls a tool that executes, or one of the listed tools
//	2  the data cannot be read: the call is denied
package main

import "github.com/flynnhost/flynn/sdk/policy"

const (
	ruleNotOwner = 1 + iota
	ruleData
)

func init() { policy.Tool(restrict) }

func main() {}

func restrict(f policy.ToolFacts) policy.Restriction {
	if f.Effect() != "execute" && !policy.ParseGlobs(setting("tools")).Match(f.Tool()) || policy.ParseGlobs(setting("roles")).Match(f.Role()) {
		return policy.Restriction{}
	}
	r := policy.Restriction{Rule: ruleNotOwner, Reason: "only for " + setting("roles") + ": " + f.Tool()}
	switch how := setting("otherwise"); how {
	case "deny":
		r.Deny = true
	case "ask":
		r.Ask = true
	case "sandbox":
		r.Sandbox = true
		r.SandboxName, _ = policy.Data("sandbox")
	default:
		return policy.Restriction{Deny: true, Rule: ruleData, Reason: "otherwise = " + how + " in the policy's data is none of deny, ask, sandbox"}
	}
	return r
}
