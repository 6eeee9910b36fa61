package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// place joins the host's own restrictions with those of the policies and decides where the call runs.
//
// The host's rules are applied to the call as the configuration alone would run it, and the policies
// add to the outcome. So a policy that demands a sandbox does not take back the question to a
// person that a run on the host would have needed: restrictions only ever add up.
func place(s Subject, r policy.Restrictions, elevated string, v *Verdict) {
	v.Action, v.Where = Run, Host
	v.Reasons = append(v.Reasons, r.Reasons...)
	configuredPlace(s, elevated, v)
	if r.Ask && len(r.Reasons) == 0 {
		v.ask("a policy asks for a person's approval")
	} else if r.Ask {
		v.ask("")
	}
	if r.Sandbox || len(r.Sandboxes) > 0 {
		demandSandbox(s.Sandbox, r.Sandboxes, v)
	}
	if r.Deny {
		v.refuse(refusal(r.Reasons))
	}
	if v.Action != Run && len(v.Reasons) == 0 {
		v.Reasons = []string{"a policy restricts this call"}
	}
}

// refusal is what the model hears of a policy's denial; reasons written for people help a model as well.
func refusal(reasons []string) string {
	if len(reasons) == 0 {
		return "a policy denies this call"
	}
	return "a policy denies this call: " + strings.Join(reasons, "; ")
}

// configuredPlace is where the call runs as the configuration has it, with the questions that follow.
func configuredPlace(s Subject, elevated string, v *Verdict) {
	if v.spec.Provider != "" {
		guardProvider(s, v)
		return
	}
	if v.spec.Own {
		ownContainer(s, v)
		return
	}
	if !s.Sandbox.Configured || !v.spec.Machine {
		guardHost(s, v)
		return
	}
	if elevated != "" {
		elevate(elevated, v)
		return
	}
	if s.Sandbox.Available == nil {
		v.enter(s.Sandbox.Name)
		return
	}
	why := unavailable(s.Sandbox)
	if s.Sandbox.OnUnavailable != UnavailableHost {
		v.deny(why)
		return
	}
	v.Reasons = append(v.Reasons, why+"; on_unavailable = \"host\" lets the call run on the host")
	if v.spec.Effect == Execute && s.LocalDoor && s.Approve == ApproveNone {
		v.ask("a command that was meant for a sandbox needs a person's approval on the host, and approve = \"none\" does not change that: " +
			"it is about agents with sandbox = false")
	}
	guardHost(s, v)
}

// ownContainer is where a call runs that has a container of its own. Where none can be had the call is denied, whatever
// on_unavailable says: that is about the session's sandbox.
func ownContainer(s Subject, v *Verdict) {
	if s.Sandbox.Own != nil {
		v.deny("no container can be had for this call: " + machine.Reason(s.Sandbox.Own))
		return
	}
	v.Sandbox, v.Where = true, OwnContainer
}

// demandSandbox puts the call into the sandbox that policies demand. Where that cannot be, the call is
// denied: on_unavailable is the owner's word about the configuration's sandbox, not about a policy's.
func demandSandbox(state SandboxState, demanded []string, v *Verdict) {
	if v.Action == Deny {
		return
	}
	if v.spec.Own {
		if slices.ContainsFunc(demanded, func(name string) bool { return name != "" }) {
			v.deny(fmt.Sprintf("policies demand %s for this call, but each call of this tool has a container of its own", displayNames(demanded)))
		}
		return
	}
	if !v.spec.Machine {
		v.deny("a policy demands a sandbox for this call, but the tool does not act on a machine and cannot run in one")
		return
	}
	name, err := sandboxName(state, demanded)
	if err != nil {
		v.deny(err.Error())
		return
	}
	if state.Available != nil {
		v.deny(unavailable(state))
		return
	}
	v.enter(name)
}

// sandboxName finds the one sandbox that all demands agree on, the configuration's among them. A demand without a
// name means the session's own sandbox, or the default one where it has none. Which of two is the stricter nobody can tell
// from their names, so two demands are an error.
func sandboxName(state SandboxState, demanded []string) (string, error) {
	own := ""
	if state.Configured {
		own = state.Name
	}
	var names []string
	if state.Configured || len(demanded) == 0 {
		names = []string{own}
	}
	for _, n := range demanded {
		if n == "" {
			n = own
		}
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(names) > 1 {
		return "", fmt.Errorf("different sandboxes are demanded for this call: %s", displayNames(names))
	}
	if !state.Configured && !slices.Contains(state.Names, names[0]) {
		return "", fmt.Errorf("a policy demands %s for this call, but it is not configured", displayNames(names))
	}
	return names[0], nil
}

func unavailable(state SandboxState) string {
	return "the sandbox is unavailable: " + machine.Reason(state.Available)
}

// guardHost asks a person before commands run outside a sandbox.
//
// Approve = "none" is the choice of somebody who sits at the machine and is tired of prompts at
// his own terminal. It does not reach calls that come over a channel: there, everybody who may
// write to the bot would run commands on the host, and one line meant for the terminal would have opened it.
// The way to run commands over a channel without asking is a sandbox.
func guardHost(s Subject, v *Verdict) {
	if v.spec.Effect != Execute {
		return
	}
	switch {
	case !s.LocalDoor:
		v.ask("commands that come over a channel need a person's approval unless the agent's sandbox is on")
	case s.Approve != ApproveNone:
		v.ask("commands at a local door need a person's approval unless the agent's sandbox is on or approve = \"none\"")
	}
}

// guardProvider asks a person as the host's configuration of the provider has it. A provider is a process on the host, whatever its tools
// do beyond it, so calls that may do harm are treated as commands on the host are.
func guardProvider(s Subject, v *Verdict) {
	harmful := v.spec.Effect == Execute || v.spec.Effect == Destructive
	tired := s.LocalDoor && s.Approve == ApproveNone
	switch {
	case v.spec.Approve == ApproveAlways:
		v.ask(fmt.Sprintf("tools of %s need a person's approval: approve = \"always\"", v.spec.Provider))
	case v.spec.Approve != ApproveNever && harmful && !tired:
		v.ask(fmt.Sprintf("%s tools of %s need a person's approval unless their effect is configured as a milder one, or approve as \"never\"",
			v.spec.Effect, v.spec.Provider))
	}
}

// enter puts the call into a sandbox.
func (v *Verdict) enter(sandbox string) {
	v.Sandbox, v.SandboxName, v.Where, v.Elevated = true, sandbox, displayName(sandbox), false
}

// ask makes a person's approval necessary.
func (v *Verdict) ask(reason string) {
	if v.Action != Deny {
		v.Action = Ask
	}
	if reason != "" {
		v.Reasons = append(v.Reasons, reason)
	}
}

// deny refuses the call for a reason of the host's.
func (v *Verdict) deny(reason string) {
	v.Reasons = append(v.Reasons, reason)
	v.refuse(reason)
}

// refuse ends it: what the model hears is the first refusal, and there is no place to run.
func (v *Verdict) refuse(text string) {
	v.Action = Deny
	v.Sandbox, v.SandboxName, v.Where, v.Elevated = false, "", "", false
	if v.Refusal == "" {
		v.Refusal = text
	}
}

// displayName is what people read for a sandbox; the default one has no name of its own.
func displayName(sandbox string) string {
	if sandbox == "" {
		return "sandbox"
	}
	return sandbox
}

func displayNames(sandboxes []string) string {
	quoted := make([]string, len(sandboxes))
	for i, n := range sandboxes {
		quoted[i] = fmt.Sprintf("sandbox %q", n)
		if n == "" {
			quoted[i] = "the default sandbox"
		}
	}
	return strings.Join(quoted, ", ")
}
