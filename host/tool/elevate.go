package tool

import "context"

// Elevation is what the host knows of elevated mode when a call is decided. Every gate has to be open, and an owner has to have
// begun it: then machine tools leave the sandbox that the configuration puts them into. It undoes nothing else: what is denied
// stays so, and policies are asked as ever, with the facts as they are; a sandbox that one of them demands holds.
type Elevation struct {
	// The gates: of the host, of the sender of the call, and of the agent.
	Enabled, Sender, Agent bool
	// AllowOn is what ElevatedOn needs besides; without it that means ElevatedAsk.
	AllowOn bool
	// State is ElevatedAsk or ElevatedOn; everything else is off.
	State string
	// By is who began it. It is good for nobody else's calls.
	By string
}

// States of an Elevation.
const (
	ElevatedAsk = "ask"
	ElevatedOn  = "on"
)

// owner is the role that elevated mode takes.
const owner = "owner"

// elevated is the state that holds for a call.
func (s Subject) elevated() string {
	if s.Elevation == nil || s.Role != owner {
		return ""
	}
	e := s.Elevation()
	switch {
	case !e.Enabled || !e.Sender || !e.Agent || e.By != s.Message.SenderKey():
		return ""
	case e.State == ElevatedOn && e.AllowOn:
		return ElevatedOn
	case e.State == ElevatedOn, e.State == ElevatedAsk:
		return ElevatedAsk
	}
	return ""
}

// elevates is the state that takes the call out of a sandbox, or "". It is looked at once for each verdict, so that policies hear
// of the place that the call is then decided for.
func (v *Verdict) elevates(s Subject) string {
	if !v.spec.Machine || v.spec.Provider != "" || !s.Sandbox.Configured {
		return ""
	}
	return s.elevated()
}

// elevate takes the call out of the sandbox, as far as the configuration is concerned.
func elevate(state string, v *Verdict) {
	v.Elevated = true
	const reason = "elevated mode lets the call leave the sandbox"
	if state == ElevatedAsk && v.spec.Effect == Execute {
		v.ask(reason + " after a person's approval")
		return
	}
	v.Reasons = append(v.Reasons, reason)
}

// record has the use of elevated mode written down before the call runs; one that cannot be is none.
func (e *Enforcer) record(ctx context.Context, s Subject, v *Verdict) error {
	if v.Action != Run || !v.Elevated {
		return nil
	}
	if e.config.Elevated == nil {
		v.deny("elevated mode is not recorded here, so nothing leaves the sandbox")
		return nil
	}
	return e.config.Elevated(ctx, s, *v)
}
