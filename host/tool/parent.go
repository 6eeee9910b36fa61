package tool

import (
	"slices"
	"strings"
)

// A call of an agent that works for another is decided about once for each agent of the chain, and is as restricted as the strictest
// of the answers: who delegates cannot have done what he may not do himself, whatever the agent that he asks is configured for, and
// whichever agents a policy is asked about.

// Chain names the agents on whose behalf a call is made, the one that was spoken to first, as people read it and as approvals are
// bound to it: "main > researcher".
func (s Subject) Chain() string {
	if s.Parent == nil {
		return s.Agent
	}
	return s.Parent.Chain() + " > " + s.Agent
}

// forAgent begins a reason that is one of another agent of the chain.
const forAgent = "for agent "

// join adds what the decision about the parent's agent restricts. Where both run in sandboxes and these differ, the parent's must be
// its configured one: the child's own was chosen for being stricter (see agent.Generation). One that a policy demands for the parent
// cannot be exchanged.
func (v *Verdict) join(s Subject, up Verdict) {
	v.Records = append(slices.Clip(v.Records), up.Records...)
	v.Policy = digest(v.Records)
	for _, r := range up.Reasons {
		if slices.Contains(v.Reasons, r) {
			continue
		}
		if !strings.HasPrefix(r, forAgent) {
			r = forAgent + s.Parent.Agent + ": " + r
		}
		v.Reasons = append(v.Reasons, r)
	}
	if up.Action == Deny {
		v.refuse(up.Refusal)
		return
	}
	if v.Action == Deny {
		return
	}
	if up.Action == Ask {
		v.ask("")
	}
	switch {
	case !up.Sandbox || v.Sandbox && v.SandboxName == up.SandboxName:
	case !v.Sandbox:
		v.enter(up.SandboxName)
	case up.SandboxName != s.Parent.Sandbox.Name || !s.Parent.Sandbox.Configured:
		v.deny("different sandboxes are demanded for this call: " + displayNames([]string{v.SandboxName, up.SandboxName}))
	}
}
