package tool

import (
	"slices"
	"strings"
)

// A call of a delegate is decided once for each agent of the delegation chain, and gets the restrictions of all of them: an agent cannot
// delegate what it may not do itself.

// Chain is the delegation chain, in the form that people see and that approvals are bound to: "main > researcher".
func (s Subject) Chain() string {
	if s.Parent == nil {
		return s.Agent
	}
	return s.Parent.Chain() + " > " + s.Agent
}

// forAgent begins a reason of another agent of the chain.
const forAgent = "for agent "

// join adds the restrictions of the decision about the parent. If both run in sandboxes and these differ, the parent's must be its
// configured one, as the child's was chosen for being stricter (see agent.Generation). A sandbox that a policy demands for the parent
// cannot be replaced.
func (v *Decision) join(s Subject, up Decision) {
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
