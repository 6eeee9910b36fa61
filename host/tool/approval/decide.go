package approval

import (
	"context"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Decide answers a request. The caller has checked the identity and the role of decider; Decide refuses people who
// grant their own requests. Giving the same answer again, as by a double click, changes nothing and is no
// error; a different answer is ErrDecided.
func (s *Service) Decide(ctx context.Context, id string, grant bool, decider string) error {
	a, err := s.decidable(ctx, id, decider)
	if err != nil {
		return err
	}
	if a.State != consent.ApprovalPending {
		return answered(a, grant)
	}
	if s.expired(a) {
		return s.expire(ctx, a)
	}
	if grant {
		if err := s.self(a, decider); err != nil {
			return err
		}
	}
	err = s.move(ctx, a, answer(grant), decider)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	// Somebody else was faster, and that answer counts.
	if a, err = s.config.Store.Approval(ctx, id); err != nil {
		return fmt.Errorf("find request %s: %w", id, err)
	}
	return answered(a, grant)
}

// decidable reads a request.
func (s *Service) decidable(ctx context.Context, id, decider string) (consent.Approval, error) {
	if decider == "" {
		return consent.Approval{}, fmt.Errorf("decide request %s: the decider is missing", id)
	}
	a, err := s.config.Store.Approval(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return a, store.NotFound(fmt.Sprintf("no request %q: flynn approvals list shows those that wait", id))
	}
	if err != nil {
		return a, fmt.Errorf("find request %s: %w", id, err)
	}
	return a, nil
}

// self refuses a decider who is the requester.
func (s *Service) self(a consent.Approval, decider string) error {
	if decider == string(a.Requester) && !s.config.SelfApprove(a.Requester) {
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

// answered compares an answer with the recorded one.
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
func (s *Service) expire(ctx context.Context, a consent.Approval) error {
	if err := s.move(ctx, a, consent.ApprovalExpired, ""); err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	return fmt.Errorf("decide request %s: %w", a.ID, ErrExpired)
}

// Consume spends a grant for the call that is about to run. It fails when the call, its machine or the policies are not
// those that were shown, when the time is up, and when the grant was spent before: then a person has to be asked again.
func (s *Service) Consume(ctx context.Context, id string, b Binding) error {
	a, err := s.config.Store.Approval(ctx, id)
	if err != nil {
		return fmt.Errorf("find approval %s: %w", id, err)
	}
	switch {
	case a.State != consent.ApprovalGranted:
		return fmt.Errorf("use approval %s: %w: it is %s", id, ErrUsed, a.State)
	case s.expired(a):
		return fmt.Errorf("use approval %s: %w", id, ErrExpired)
	}
	if what := bindingOf(a).difference(b); what != "" {
		return fmt.Errorf("use approval %s: %w: %s changed in between", id, ErrDrift, what)
	}
	err = s.move(ctx, a, consent.ApprovalConsumed, a.Decider)
	if errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("use approval %s: %w", id, ErrUsed)
	}
	return err
}

func bindingOf(a consent.Approval) Binding {
	return Binding{Tool: a.Tool, Args: a.Args, Dir: a.Dir, Agent: a.Agent, Policy: a.Policy, Where: a.Where, Sandbox: a.Sandbox}
}

func (b Binding) equal(other Binding) bool { return b.difference(other) == "" }

// difference names the first fact in which two bindings differ, or "".
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
		return "the machine"
	case b.Sandbox != other.Sandbox:
		return "the contents of the sandbox"
	}
	return ""
}
