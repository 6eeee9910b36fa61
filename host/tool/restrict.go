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
// add to the result. So a call that needs an approval on the host still needs it when a policy moves it
// into a sandbox: restrictions only add up.
func place(s Subject, r policy.Restrictions, elevated string, v *Decision) {
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

// refusal is the text for the model if a policy denies; reasons written for people help a model as well.
func refusal(reasons []string) string {
	if len(reasons) == 0 {
		return "a policy denies this call"
	}
	return "a policy denies this call: " + strings.Join(reasons, "; ")
}

// configuredPlace decides where the call runs by the configuration, and adds the approvals that follow from it.
func configuredPlace(s Subject, elevated string, v *Decision) {
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
	down := why(s.Sandbox.Unavailable)
	if down == nil {
		v.enter(s.Sandbox.Name)
		return
	}
	reason := "the sandbox is unavailable: " + machine.Reason(down)
	if s.Sandbox.OnUnavailable != UnavailableHost {
		v.deny(reason)
		return
	}
	v.Reasons = append(v.Reasons, reason+"; on_unavailable = \"host\" lets the call run on the host")
	if v.spec.Effect == Execute && s.Local && s.Approve == ApproveNone {
		v.ask("a command that was meant for a sandbox needs a person's approval on the host, and approve = \"none\" does not change that: " +
			"it is about agents with sandbox = false")
	}
	guardHost(s, v)
}

// ownContainer runs a call in a container of its own. Without one the call is denied: on_unavailable is about the session's
// sandbox.
func ownContainer(s Subject, v *Decision) {
	if down := why(s.Sandbox.NoContainer); down != nil {
		v.deny("there is no container for this call: " + machine.Reason(down))
		return
	}
	v.Sandbox, v.Where = true, OwnContainer
}

// demandSandbox puts the call into the sandbox that policies demand, or denies it: on_unavailable is about the
// configured sandbox, not about that of a policy.
func demandSandbox(state SandboxState, demanded []string, v *Decision) {
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
	if down := why(state.Unavailable); down != nil {
		v.deny("the sandbox is unavailable: " + machine.Reason(down))
		return
	}
	v.enter(name)
}

// sandboxName finds the one sandbox that all demands agree on, the configuration's included. A demand without a
// name means the session's own sandbox, or the default one if it has none. Two different sandboxes are an error, as their
// names do not say which is stricter.
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

// guardHost asks a person before commands run outside a sandbox.
//
// Approve = "none" is for a person at this machine who wants no prompts at the terminal. It does not
// apply to calls over a channel: there, everybody who may write to the bot could run commands on the
// host. Commands over a channel run without an approval in a sandbox only.
func guardHost(s Subject, v *Decision) {
	if v.spec.Effect != Execute {
		return
	}
	switch {
	case !s.Local:
		v.ask("commands that come over a channel need a person's approval unless the agent's sandbox is on")
	case s.Approve != ApproveNone:
		v.ask("commands at a local frontend need a person's approval unless the agent's sandbox is on or approve = \"none\"")
	}
}

// guardProvider asks a person according to the provider's configuration. A provider is a process on the host, so calls that may do harm
// are treated like commands on the host.
func guardProvider(s Subject, v *Decision) {
	harmful := v.spec.Effect == Execute || v.spec.Effect == Destructive
	tired := s.Local && s.Approve == ApproveNone
	switch {
	case v.spec.Approve == ApproveAlways:
		v.ask(fmt.Sprintf("tools of %s need a person's approval: approve = \"always\"", v.spec.Provider))
	case v.spec.Approve != ApproveNever && harmful && !tired:
		v.ask(fmt.Sprintf("%s tools of %s need a person's approval unless their effect is configured as a milder one, or approve as \"never\"",
			v.spec.Effect, v.spec.Provider))
	}
}

// enter puts the call into a sandbox.
func (v *Decision) enter(sandbox string) {
	v.Sandbox, v.SandboxName, v.Where, v.Elevated = true, sandbox, displayName(sandbox), false
}

// ask requires a person's approval.
func (v *Decision) ask(reason string) {
	if v.Action != Deny {
		v.Action = Ask
	}
	if reason != "" {
		v.Reasons = append(v.Reasons, reason)
	}
}

// deny refuses the call for a reason of the host.
func (v *Decision) deny(reason string) {
	v.Reasons = append(v.Reasons, reason)
	v.refuse(reason)
}

// refuse denies the call. The model gets the text of the first refusal.
func (v *Decision) refuse(text string) {
	v.Action = Deny
	v.Sandbox, v.SandboxName, v.Where, v.Elevated = false, "", "", false
	if v.Refusal == "" {
		v.Refusal = text
	}
}

// displayName is the name of a sandbox for people; the default one has none in the configuration.
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

// Outlook is what the configuration alone says about the calls of a tool. It lets none run.
type Outlook struct {
	Action  Action
	Where   string
	Reasons []string
}

// OutlookOf returns what is decided about the calls of a tool as long as no policy restricts them and nothing is elevated.
func OutlookOf(spec Spec, s Subject) Outlook {
	v := Decision{spec: spec}
	place(s, policy.Restrictions{}, "", &v)
	return Outlook{v.Action, v.Where, v.Reasons}
}
