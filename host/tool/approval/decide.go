package approval

import (
	"context"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Decide answers a request. The caller has made sure who decider is and that his role lets him decide; that he does not
// grant what he asked for himself is seen to here. Giving the same answer again, as a double click
// does, changes nothing and is no error; another answer than the one that is there is ErrDecided.
func (d *Desk) Decide(ctx context.Context, id string, grant bool, decider string) error {
	a, err := d.decidable(ctx, id, decider)
	if err != nil {
		return err
	}
	if a.State != consent.ApprovalPending {
		return answered(a, grant)
	}
	if d.expired(a) {
		return d.expire(ctx, a)
	}
	if grant {
		if err := d.self(a, decider); err != nil {
			return err
		}
	}
	err = d.move(ctx, a, answer(grant), decider)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	// Somebody else was faster; what counts is what he said.
	if a, err = d.config.Store.Approval(ctx, id); err != nil {
		return fmt.Errorf("find request %s: %w", id, err)
	}
	return answered(a, grant)
}

// decidable reads the request that somebody decides.
func (d *Desk) decidable(ctx context.Context, id, decider string) (consent.Approval, error) {
	if decider == "" {
		return consent.Approval{}, fmt.Errorf("decide request %s: nobody is named as the one who decides", id)
	}
	a, err := d.config.Store.Approval(ctx, id)
	if err != nil {
		return a, fmt.Errorf("find request %s: %w", id, err)
	}
	return a, nil
}

// self refuses that somebody grants what he asked for himself.
func (d *Desk) self(a consent.Approval, decider string) error {
	if decider == a.Requester && !d.config.SelfApprove(decider) {
		return fmt.Errorf("decide request %s: %w; somebody else has to", a.ID, ErrSelf)
	}
	return nil
}

func answer(grant bool) consent.ApprovalState {
	if grant {
		return consent.ApprovalGranted
	}
	return consent.ApprovalDenied
}

// answered compares a decision with the one that is there.
func answered(a consent.Approval, grant bool) error {
	switch a.State {
	case consent.ApprovalGranted, consent.ApprovalConsumed:
		if grant {
			return nil
		}
	case consent.ApprovalDenied:
		if !grant {
			return nil
		}
	case consent.ApprovalExpired:
		return fmt.Errorf("decide request %s: %w", a.ID, ErrExpired)
	case consent.ApprovalWithdrawn:
		return fmt.Errorf("decide request %s: %w", a.ID, ErrGone)
	}
	return fmt.Errorf("decide request %s: %w: %s by %s", a.ID, ErrDecided, a.State, a.Decider)
}

// expire ends a request whose time is up.
func (d *Desk) expire(ctx context.Context, a consent.Approval) error {
	if err := d.move(ctx, a, consent.ApprovalExpired, ""); err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	return fmt.Errorf("decide request %s: %w", a.ID, ErrExpired)
}

// Consume spends a grant for the call that is about to run. It fails when the call, its place or the policies are not
// those that were shown, when the time is up, and when the grant was spent before: then a person has to be asked anew.
func (d *Desk) Consume(ctx context.Context, id string, b Binding) error {
	a, err := d.config.Store.Approval(ctx, id)
	if err != nil {
		return fmt.Errorf("find approval %s: %w", id, err)
	}
	switch {
	case a.State != consent.ApprovalGranted:
		return fmt.Errorf("use approval %s: %w: it is %s", id, ErrUsed, a.State)
	case d.expired(a):
		return fmt.Errorf("use approval %s: %w", id, ErrExpired)
	}
	if what := bindingOf(a).difference(b); what != "" {
		return fmt.Errorf("use approval %s: %w: %s changed in between", id, ErrDrift, what)
	}
	err = d.move(ctx, a, consent.ApprovalConsumed, a.Decider)
	if errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("use approval %s: %w", id, ErrUsed)
	}
	return err
}

func bindingOf(a consent.Approval) Binding {
	return Binding{Tool: a.Tool, Args: a.Args, Dir: a.Dir, Agent: a.Agent, Policy: a.Policy, Where: a.Where, Sandbox: a.Sandbox}
}

func (b Binding) equal(other Binding) bool { return b.difference(other) == "" }

// difference names the first thing in which two bindings differ, or nothing.
func (b Binding) difference(other Binding) string {
	switch {
	case b.Tool != other.Tool:
		return "the tool"
	case !jsonform.Same(b.Args, other.Args):
		return "the arguments"
	case b.Dir != other.Dir:
		return "the working directory"
	case b.Agent != other.Agent:
		return "the agent"
	case b.Policy != other.Policy:
		return "the policies"
	case b.Where != other.Where:
		return "the place where it runs"
	case b.Sandbox != other.Sandbox:
		return "what the sandbox is made of"
	}
	return ""
}
