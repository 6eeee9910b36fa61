package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// AddApproval implements consent.Approvals.
func (s *Store) AddApproval(ctx context.Context, a consent.Approval) error {
	body, err := jsonform.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode approval: %w", err)
	}
	err = s.writer.write(ctx, func(w *writer) error {
		if err := w.ownsRow(store.ConversationOwner, whereOfTurn, a.Turn); err != nil {
			return err
		}
		return w.changeOne("INSERT INTO approvals (id, state, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", a.ID, a.State, body)
	})
	if err != nil {
		return fmt.Errorf("add approval %s: %w", a.ID, err)
	}
	return nil
}

// Approval implements consent.Approvals.
func (s *Store) Approval(ctx context.Context, id string) (consent.Approval, error) {
	a, err := one(ctx, s.read, scanApproval, "SELECT body FROM approvals WHERE id = ?", id)
	if err != nil {
		return a, fmt.Errorf("read approval %q: %w", id, err)
	}
	return a, nil
}

// MoveApproval implements consent.Approvals.
func (s *Store) MoveApproval(ctx context.Context, id string, from, to consent.ApprovalState, decider string, at time.Time) error {
	err := s.writer.write(ctx, func(w *writer) error {
		a, err := scanApproval(func(dest ...any) error {
			return w.row("SELECT body FROM approvals WHERE id = ? /* lock */", []any{id}, dest...)
		})
		if err != nil {
			return conflict(err)
		}
		if person := to == consent.ApprovalGranted || to == consent.ApprovalDenied; !person { // they may answer through any host
			if err := w.ownsRow(store.ConversationOwner, whereOfTurn, a.Turn); err != nil {
				return err
			}
		}
		a.State, a.Decider, a.Decided = to, decider, at.UTC()
		body, err := jsonform.Marshal(a)
		if err != nil {
			return err
		}
		return w.changeOne("UPDATE approvals SET state = ?, body = ? WHERE id = ? AND state = ?", to, body, id, from)
	})
	if err != nil {
		return fmt.Errorf("move approval %q from %s to %s: %w", id, from, to, err)
	}
	return nil
}

// ListApprovals implements consent.Approvals.
func (s *Store) ListApprovals(ctx context.Context, state consent.ApprovalState, limit int) ([]consent.Approval, error) {
	return list(ctx, s.read, scanApproval, "SELECT body FROM approvals WHERE state = ? ORDER BY id LIMIT ?", state, limit)
}

func scanApproval(scan func(...any) error) (consent.Approval, error) {
	var a consent.Approval
	var body []byte
	if err := scan(&body); err != nil {
		return a, err
	}
	return a, json.Unmarshal(body, &a)
}
