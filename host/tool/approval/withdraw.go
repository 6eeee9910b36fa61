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

// Withdraw ends a request whose call is over, answered or not: nothing would run any more. A request that was denied, used or has
// expired stays as it is.
func (d *Desk) Withdraw(ctx context.Context, id string) error {
	for {
		a, err := d.config.Store.Approval(ctx, id)
		if err != nil {
			return fmt.Errorf("find request %s: %w", id, err)
		}
		if a.State != consent.ApprovalPending && a.State != consent.ApprovalGranted {
			return nil
		}
		if err := d.move(ctx, a, consent.ApprovalWithdrawn, a.Decider); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// Turns lists the turns that run.
type Turns interface {
	RunningTurns(ctx context.Context) ([]turnlog.Turn, error)
}

// WithdrawEnded withdraws the open requests of turns that no longer run, which a crash or an older version of the host has left.
func (d *Desk) WithdrawEnded(ctx context.Context, turns Turns) error {
	list, err := turns.RunningTurns(ctx)
	if err != nil {
		return err
	}
	return d.WithdrawAll(ctx, func(turn string) bool {
		return !slices.ContainsFunc(list, func(t turnlog.Turn) bool { return t.ID == turn })
	})
}

// WithdrawAll withdraws the open requests of the turns that ended reports.
func (d *Desk) WithdrawAll(ctx context.Context, ended func(turn string) bool) error {
	var failed error
	for _, state := range []consent.ApprovalState{consent.ApprovalPending, consent.ApprovalGranted} {
		list, err := d.config.Store.ListApprovals(ctx, state, manyOpen)
		failed = errors.Join(failed, err)
		for _, a := range list {
			if ended(a.Turn) {
				failed = errors.Join(failed, d.Withdraw(ctx, a.ID))
			}
		}
	}
	return failed
}
