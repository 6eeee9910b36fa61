package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Approver asks a person; *approval.Service implements it.
type Approver interface {
	Request(ctx context.Context, ask approval.Ask) (consent.Approval, error)
	Wait(ctx context.Context, id string) (granted bool, decider string, err error)
	Consume(ctx context.Context, id string, b approval.Binding) error
	// Use finds a lease that covers the call, and counts the use.
	Use(ctx context.Context, ask approval.Ask) (consent.Grant, bool, error)
}

var _ Approver = (*approval.Service)(nil)

// maxAsks bounds how often a person is asked about one call whose circumstances change meanwhile.
const maxAsks = 3

// Admit decides about a call and, if a person has to approve it, looks for a lease that covers it, or asks and waits. The decision is
// Run or Deny; with an error it is neither, and has only the decisions so far. No other function makes a decision that a Runner
// runs. A call that leaves the sandbox by elevated mode is recorded before Admit returns.
//
// After an approval Admit decides again: the kill switch, the policies or the sandbox may have changed meanwhile. It spends
// the approval on that second decision, and only if the call is the one that was shown. asked, if set, is called with each
// request and the decision that led to it.
func (e *Enforcer) Admit(ctx context.Context, s Subject, call model.ToolCall, people Approver, asked func(Decision, consent.Approval)) (Decision, error) {
	v, err := e.admit(ctx, s, call, people, asked)
	if err == nil {
		if err = e.record(ctx, s, &v); err != nil {
			err = fmt.Errorf("record that the call leaves the sandbox: %w", err)
		}
	}
	if err != nil || v.Action != Run {
		v.tool = nil
	}
	return v, err
}

func (e *Enforcer) admit(ctx context.Context, s Subject, call model.ToolCall, people Approver, asked func(Decision, consent.Approval)) (Decision, error) {
	v := e.enforce(ctx, s, call)
	for range maxAsks {
		if v.Action != Ask {
			return v, nil
		}
		if people == nil {
			v.deny("a person has to approve this call, and there is nobody to ask")
			return v, nil
		}
		if leased, err := v.leased(ctx, s, people); leased || err != nil {
			return v, err
		}
		request, err := people.Request(ctx, v.request(s))
		if errors.Is(err, approval.ErrMany) {
			v.deny("a person has to approve this call, and " + err.Error())
			return v, nil
		}
		if err != nil {
			return v, fmt.Errorf("ask for approval: %w", err)
		}
		if asked != nil {
			asked(v, request)
		}
		granted, decider, err := people.Wait(ctx, request.ID)
		if err != nil {
			return v, fmt.Errorf("wait for approval: %w", err)
		}
		if !granted {
			v.deny(turnedDown(request.ID, decider))
			return v, nil
		}
		before := v.Records
		v = e.enforce(ctx, s, call)
		v.Records = append(before, v.Records...) // both rounds belong in the decision log
		if v.Action != Ask {
			return v, nil
		}
		if err = people.Consume(ctx, request.ID, v.binding(s)); err == nil {
			v.Action = Run
			v.Reasons = append(v.Reasons, fmt.Sprintf("approved by %s (request %s)", decider, request.ID))
			return v, nil
		} else if !stale(err) {
			return v, err
		}
	}
	v.deny("the call or its circumstances changed each time while a person was asked")
	return v, nil
}

// leased lets a call run that a lease covers. The decision is the latest one, made right before the call.
func (v *Decision) leased(ctx context.Context, s Subject, people Approver) (bool, error) {
	g, ok, err := people.Use(ctx, v.request(s))
	if err != nil {
		return false, fmt.Errorf("look for a lease: %w", err)
	}
	if ok {
		v.Action = Run
		v.Reasons = append(v.Reasons, fmt.Sprintf("allowed by %s (%s grant %s)", g.Granter, g.Scope, g.ID))
	}
	return ok, nil
}

// stale reports whether asking again can help.
func stale(err error) bool {
	return errors.Is(err, approval.ErrDrift) || errors.Is(err, approval.ErrUsed) || errors.Is(err, approval.ErrExpired)
}

func turnedDown(id, decider string) string {
	if decider == "" {
		return fmt.Sprintf("nobody approved this call in time (request %s)", id)
	}
	return fmt.Sprintf("%s did not approve this call (request %s); do not try it again in another form", decider, id)
}

func (v *Decision) request(s Subject) approval.Ask {
	return approval.Ask{
		Binding:   v.binding(s),
		Turn:      s.Turn,
		Session:   s.Session,
		Requester: s.Message.SenderKey(),
		Reach:     v.spec.reach(v.Args),
		Reasons:   v.Reasons,
	}
}

func (v *Decision) binding(s Subject) approval.Binding {
	return approval.Binding{
		Tool:   v.spec.Name,
		Args:   v.Args,
		Dir:    s.Dir,
		Agent:  s.Chain(),
		Policy: v.boundPolicy(),
		Where:  v.Where,

		Sandbox: v.sandboxDigest(s.Sandbox),
	}
}

// sandboxDigest is a digest of the call's sandbox, or "" if it is not known: then the call can be approved only once.
func (v *Decision) sandboxDigest(state SandboxState) string {
	switch {
	case !v.Sandbox:
		return Host
	case state.Digest == nil:
		return ""
	}
	return state.Digest(v.SandboxName)
}

// reach is how far an approval of a call may reach. Calls of a tool that runs programs are approved one by one, unless their command line
// can be analysed.
func (s Spec) reach(args json.RawMessage) string {
	harmful := s.Effect == Execute || s.Effect == Destructive
	switch {
	case s.Provider != "" && harmful:
		return approval.ReachSession
	case !harmful:
		return approval.ReachCall
	}
	var call struct{ Command *string }
	if json.Unmarshal(args, &call) == nil && call.Command != nil {
		return approval.ReachShell
	}
	return approval.ReachOnce
}

// boundPolicy is the digest of the policies and, for a provider's tool, of its description: an approval does not hold for a changed tool.
func (v *Decision) boundPolicy() string {
	if v.spec.Digest == "" {
		return v.Policy
	}
	sum := sha256.Sum256([]byte(v.Policy + " " + v.spec.Digest))
	return hex.EncodeToString(sum[:])
}
