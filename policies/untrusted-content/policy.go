// Untrusted-content guards an agent that has read what strangers wrote.
//
// A session carries labels of what it has touched. As soon as one of them is untrusted, every tool call of the session is held to
// what the data says for the tool's effect: a person is asked, the call goes into a sandbox, or it is denied. The content
// stays in the agent's context, so this holds for the rest of the session.
//
// Rules:
//
//	1  the session has touched untrusted content, and the effect of the tool is restricted
//	2  the data cannot be read: the call is denied
package main

import "github.com/flynnhost/flynn/sdk/policy"

const (
	ruleUntrusted = 1 + iota
	ruleData
)

func init() { policy.Tool(restrict) }

func main() {}

func restrict(f policy.ToolFacts) policy.Restriction {
	how := setting(f.Effect())
	if how == "none" || policy.ParseGlobs(setting("free_tools")).Match(f.Tool()) {
		return policy.Restriction{}
	}
	label := untrusted(f)
	if label == "" {
		return policy.Restriction{}
	}
	r := policy.Restriction{Rule: ruleUntrusted, Reason: "the session has touched " + label}
	switch how {
	case "ask":
		r.Ask = true
	case "sandbox":
		r.Sandbox = true
		r.SandboxName, _ = policy.Data("sandbox")
	case "deny":
		r.Deny = true
	default:
		return policy.Restriction{Deny: true, Rule: ruleData, Reason: f.Effect() + " = " + how + " in the policy's data is none of none, ask, sandbox, deny"}
	}
	return r
}

// untrusted returns the first label of the session that matches the list of untrusted labels and not the list of trusted ones.
func untrusted(f policy.ToolFacts) string {
	doubted, trusted := policy.ParseGlobs(setting("untrusted")), policy.ParseGlobs(setting("trusted"))
	for label := range f.Labels().All() {
		if doubted.Match(label) && !trusted.Match(label) {
			return label
		}
	}
	return ""
}
