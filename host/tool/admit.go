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

// Approver asks a person; *approval.Desk is the one that there is.
type Approver interface {
	Request(ctx context.Context, ask approval.Ask) (consent.Approval, error)
	Wait(ctx context.Context, id string) (granted bool, decider string, err error)
	Consume(ctx context.Context, id string, b approval.Binding) error
	// Use finds a lease that covers the call, and counts the use.
	Use(ctx context.Context, ask approval.Ask) (consent.Grant, bool, error)
}

var _ Approver = (*approval.Desk)(nil)

// maxAsks bounds how often a person is asked about one call whose circumstances change while he thinks.
const maxAsks = 3

// Admit enforces a call and, where a person has to agree, looks for a lease that covers it, or asks and waits. Its verdict is
// Run or Deny, and with an error neither: the verdict says then what was decided up to there. Nothing else makes a verdict that a
// Runner runs; what left the sandbox by elevated mode is written down before.
//
// After a grant the call is enforced once more: the kill switch, the policies or the sandbox may have
// changed while somebody slept over it. The grant is spent on that second verdict, and only if it is the one that was
// shown. asked, if set, hears of each request with the verdict that led to it.
func (e *Enforcer) Admit(ctx context.Context, s Subject, call model.ToolCall, people Approver, asked func(Verdict, consent.Approval)) (Verdict, error) {
	v, err := e.admit(ctx, s, call, people, asked)
	if err == nil {
		if err = e.record(ctx, s, &v); err != nil {
			err = fmt.Errorf("write down that the call leaves the sandbox: %w", err)
		}
	}
	if err != nil || v.Action != Run {
		v.tool = nil
	}
	return v, err
}

func (e *Enforcer) admit(ctx context.Context, s Subject, call model.ToolCall, people Approver, asked func(Verdict, consent.Approval)) (Verdict, error) {
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

// leased lets a call run that somebody has agreed to before, if it is still the one that he has agreed to. The verdict is the
// latest: nothing is decided between it and the call.
func (v *Verdict) leased(ctx context.Context, s Subject, people Approver) (bool, error) {
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

// stale reports whether asking anew can help.
func stale(err error) bool {
	return errors.Is(err, approval.ErrDrift) || errors.Is(err, approval.ErrUsed) || errors.Is(err, approval.ErrExpired)
}

func turnedDown(id, decider string) string {
	if decider == "" {
		return fmt.Sprintf("nobody approved this call in time (request %s)", id)
	}
	return fmt.Sprintf("%s did not approve this call (request %s); do not try it again in another form", decider, id)
}

func (v *Verdict) request(s Subject) approval.Ask {
	return approval.Ask{
		Binding:   v.binding(s),
		Turn:      s.Turn,
		Session:   s.Session,
		Requester: s.Message.SenderKey(),
		Reach:     v.spec.reach(v.Args),
		Reasons:   v.Reasons,
	}
}

func (v *Verdict) binding(s Subject) approval.Binding {
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

// sandboxDigest names what the sandbox of the call is made of. Without one nothing can be agreed to for longer than once.
func (v *Verdict) sandboxDigest(state SandboxState) string {
	switch {
	case !v.Sandbox:
		return Host
	case state.Digest == nil:
		return ""
	}
	return state.Digest(v.SandboxName)
}

// reach is how far a person's yes to a call may reach. Who adds a tool that runs programs, and says nothing here, has it approved
// call by call.
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

// boundPolicy is the digest of the policies and, for a provider's tool, of what it said of itself: a tool that is another one under the
// same name was not approved.
func (v *Verdict) boundPolicy() string {
	if v.spec.Digest == "" {
		return v.Policy
	}
	sum := sha256.Sum256([]byte(v.Policy + " " + v.spec.Digest))
	return hex.EncodeToString(sum[:])
}
