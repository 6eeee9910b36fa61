package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Withdraw ends a request whose call has ended, answered or not. A request that was denied or used, or that has expired, stays as it
// is.
func (s *Service) Withdraw(ctx context.Context, id string) error {
	for {
		a, err := s.config.Store.Approval(ctx, id)
		if err != nil {
			return fmt.Errorf("find request %s: %w", id, err)
		}
		if a.State != consent.ApprovalPending && a.State != consent.ApprovalGranted {
			return nil
		}
		if err := s.move(ctx, a, consent.ApprovalWithdrawn, a.Decider); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// Turns lists the turns that run.
type Turns interface {
	RunningTurns(ctx context.Context) ([]turnlog.Turn, error)
}

// WithdrawEnded withdraws the open requests of turns that no longer run, as after a crash.
func (s *Service) WithdrawEnded(ctx context.Context, turns Turns) error {
	list, err := turns.RunningTurns(ctx)
	if err != nil {
		return err
	}
	return s.WithdrawAll(ctx, func(turn string) bool {
		return !slices.ContainsFunc(list, func(t turnlog.Turn) bool { return t.ID == turn })
	})
}

// WithdrawAll withdraws the open requests of the turns for which ended returns true.
func (s *Service) WithdrawAll(ctx context.Context, ended func(turn string) bool) error {
	var failed error
	for _, state := range []consent.ApprovalState{consent.ApprovalPending, consent.ApprovalGranted} {
		list, err := s.config.Store.ListApprovals(ctx, state, manyOpen)
		failed = errors.Join(failed, err)
		for _, a := range list {
			if ended(a.Turn) {
				failed = errors.Join(failed, s.Withdraw(ctx, a.ID))
			}
		}
	}
	return failed
}
