package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// pollInterval is how often Wait reads the store without a wake-up: another process on the same store may decide.
const pollInterval = 5 * time.Second

// Wait blocks until a request is decided or its time is up, which denies it. Decider is empty when nobody decided.
func (s *Service) Wait(ctx context.Context, id string) (granted bool, decider string, err error) {
	began := time.Now() // monotonic
	for {
		changed := s.change() // before reading, so that no change is missed
		a, err := s.config.Store.Approval(ctx, id)
		if errors.Is(err, store.ErrPassing) { // the request exists, and expires when it can be read again
			if err := s.sleep(ctx, consent.Approval{Expires: s.config.Now().Add(pollInterval)}, changed); err != nil {
				return false, "", fmt.Errorf("wait for request %s: %w", id, err)
			}
			continue
		}
		if err != nil {
			return false, "", fmt.Errorf("find request %s: %w", id, err)
		}
		if a.State == consent.ApprovalPending && (s.expired(a) || time.Since(began) >= a.Expires.Sub(a.Created)) {
			if err := s.move(ctx, a, consent.ApprovalExpired, ""); err != nil && !errors.Is(err, store.ErrConflict) {
				return false, "", err
			}
			continue
		}
		if a.State != consent.ApprovalPending {
			leased := a.State == consent.ApprovalConsumed && a.Scope != "" // the lease lets the call run
			return a.State == consent.ApprovalGranted || leased, a.Decider, nil
		}
		if err := s.sleep(ctx, a, changed); err != nil {
			return false, "", fmt.Errorf("wait for request %s: %w", id, err)
		}
	}
}

// sleep waits until the request may have changed.
func (s *Service) sleep(ctx context.Context, a consent.Approval, changed <-chan struct{}) error {
	left := min(a.Expires.Sub(s.config.Now()), a.Expires.Sub(a.Created))
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
