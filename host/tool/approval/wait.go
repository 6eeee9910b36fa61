package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// pollInterval is how often a waiter looks at the store by itself: a decision may come through another process on the same store.
const pollInterval = 5 * time.Second

// Wait blocks until a request is decided or its time is up, which denies it. Decider is empty when nobody decided.
func (d *Desk) Wait(ctx context.Context, id string) (granted bool, decider string, err error) {
	began := time.Now() // of this process: it does not go back
	for {
		changed := d.change() // taken before the look, so that no change falls between the two
		a, err := d.config.Store.Approval(ctx, id)
		if errors.Is(err, store.ErrPassing) { // the request is there, and expires when it can be read again
			if err := d.sleep(ctx, consent.Approval{Expires: d.config.Now().Add(pollInterval)}, changed); err != nil {
				return false, "", fmt.Errorf("wait for request %s: %w", id, err)
			}
			continue
		}
		if err != nil {
			return false, "", fmt.Errorf("find request %s: %w", id, err)
		}
		if a.State == consent.ApprovalPending && (d.expired(a) || time.Since(began) >= a.Expires.Sub(a.Created)) {
			if err := d.move(ctx, a, consent.ApprovalExpired, ""); err != nil && !errors.Is(err, store.ErrConflict) {
				return false, "", err
			}
			continue
		}
		if a.State != consent.ApprovalPending {
			leased := a.State == consent.ApprovalConsumed && a.Scope != "" // the lease lets the call run
			return a.State == consent.ApprovalGranted || leased, a.Decider, nil
		}
		if err := d.sleep(ctx, a, changed); err != nil {
			return false, "", fmt.Errorf("wait for request %s: %w", id, err)
		}
	}
}

// sleep returns when it is worth looking at the request again.
func (d *Desk) sleep(ctx context.Context, a consent.Approval, changed <-chan struct{}) error {
	left := min(a.Expires.Sub(d.config.Now()), a.Expires.Sub(a.Created))
	timer := time.NewTimer(min(max(left, 0), pollInterval))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
