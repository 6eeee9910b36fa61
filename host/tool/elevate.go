package tool

import (
	"context"

	"github.com/flynnhost/flynn/host/message"
)

// Elevation is the state of elevated mode at the time of a call. If every gate is open and an owner has begun it, machine tools leave the
// sandbox of the configuration. It lifts no other restriction: policies are asked with the true facts, and a denial or a sandbox that
// they demand holds.
type Elevation struct {
	// The gates: of the host, of the sender of the call, and of the agent.
	Enabled, Sender, Agent bool
	// AllowOn is the further gate of ElevatedOn; if it is closed, ElevatedOn means ElevatedAsk.
	AllowOn bool
	// State is ElevatedAsk or ElevatedOn; everything else is off.
	State string
	// By is the sender who began it, for his own calls alone.
	By message.SenderKey
}

// States of an Elevation.
const (
	ElevatedAsk = "ask"
	ElevatedOn  = "on"
)

// owner is the role that elevated mode needs.
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

// elevates is the state that takes the call out of a sandbox, or "". It is read once for each decision, so that the facts for policies
// and the decision agree.
func (v *Decision) elevates(s Subject) string {
	if !v.spec.Machine || v.spec.Provider != "" || !s.Sandbox.Configured {
		return ""
	}
	return s.elevated()
}

// elevate takes the call out of the sandbox of the configuration.
func elevate(state string, v *Decision) {
	v.Elevated = true
	const reason = "elevated mode lets the call leave the sandbox"
	if state == ElevatedAsk && v.spec.Effect == Execute {
		v.ask(reason + " after a person's approval")
		return
	}
	v.Reasons = append(v.Reasons, reason)
}

// record records the use of elevated mode before the call runs. Without a record the call does not leave the sandbox.
func (e *Enforcer) record(ctx context.Context, s Subject, v *Decision) error {
	if v.Action != Run || !v.Elevated {
		return nil
	}
	if e.config.Elevated == nil {
		v.deny("elevated mode is not recorded here, so nothing leaves the sandbox")
		return nil
	}
	return e.config.Elevated(ctx, s, *v)
}
