package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// GrantApproval implements consent.Grants.
func (s *Store) GrantApproval(ctx context.Context, g consent.Grant, row consent.AuditRow) error {
	err := s.writer.write(ctx, func(w *writer) error {
		a, err := scanApproval(func(dest ...any) error {
			return w.row("SELECT body FROM approvals WHERE id = ? AND state = ? /* lock */", []any{g.ID, consent.ApprovalPending}, dest...)
		})
		if err != nil {
			return conflict(err)
		}
		a.State, a.Decider, a.Decided, a.Scope = consent.ApprovalConsumed, g.Granter, row.At.UTC(), g.Scope
		body, err := jsonform.Marshal(a)
		if err != nil {
			return err
		}
		if err := w.exec("UPDATE approvals SET state = ?, body = ? WHERE id = ?", a.State, body, a.ID); err != nil {
			return err
		}
		if body, err = jsonform.Marshal(g); err != nil {
			return err
		}
		err = w.changeOne("INSERT INTO grants (id, agent, tool, open_until, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			g.ID, g.Agent, g.Tool, nanos(g.Expires), body)
		if err != nil {
			return err
		}
		return w.audit(row)
	})
	if err != nil {
		return fmt.Errorf("grant %s: %w", g.ID, err)
	}
	return nil
}

// Grant implements consent.Grants.
func (s *Store) Grant(ctx context.Context, id string) (consent.Grant, error) {
	g, err := one(ctx, s.read, scanGrant, "SELECT body FROM grants WHERE id = ?", id)
	if err != nil {
		return g, fmt.Errorf("read grant %q: %w", id, err)
	}
	return g, nil
}

// OpenGrants implements consent.Grants.
func (s *Store) OpenGrants(ctx context.Context, agent, tool string, now time.Time) ([]consent.Grant, error) {
	grants, err := list(ctx, s.read, scanGrant, "SELECT body FROM grants WHERE agent = ? AND tool = ? AND open_until > ? ORDER BY seq", agent, tool, nanos(now))
	return slices.DeleteFunc(grants, func(g consent.Grant) bool { return !g.Open(now) }), err
}

// ListGrants implements consent.Grants.
func (s *Store) ListGrants(ctx context.Context, limit int) ([]consent.Grant, error) {
	latest, err := list(ctx, s.read, scanGrant, "SELECT body FROM grants ORDER BY seq DESC LIMIT ?", limit)
	slices.Reverse(latest)
	return latest, err
}

// UseGrant implements consent.Grants.
func (s *Store) UseGrant(ctx context.Context, id string, row consent.AuditRow) error {
	return s.changeGrant(ctx, id, row, func(g *consent.Grant) { g.Uses, g.LastUsed = g.Uses+1, row.At.UTC() })
}

// EndGrant implements consent.Grants.
func (s *Store) EndGrant(ctx context.Context, id string, row consent.AuditRow) error {
	return s.changeGrant(ctx, id, row, func(g *consent.Grant) { g.Ended, g.EndedBy = row.At.UTC(), row.Actor })
}

// changeGrant changes an open grant and adds the audit row.
func (s *Store) changeGrant(ctx context.Context, id string, row consent.AuditRow, change func(*consent.Grant)) error {
	err := s.writer.write(ctx, func(w *writer) error {
		g, err := scanGrant(func(dest ...any) error {
			return w.row("SELECT body FROM grants WHERE id = ? AND open_until > ? /* lock */", []any{id, nanos(row.At)}, dest...)
		})
		if err != nil {
			return conflict(err)
		}
		change(&g)
		body, err := jsonform.Marshal(g)
		if err != nil {
			return err
		}
		until := nanos(g.Expires)
		if !g.Ended.IsZero() {
			until = 0
		}
		if err := w.exec("UPDATE grants SET open_until = ?, body = ? WHERE id = ?", until, body, id); err != nil {
			return err
		}
		return w.audit(row)
	})
	if err != nil {
		return fmt.Errorf("%s of grant %q: %w", row.Kind, id, err)
	}
	return nil
}

func scanGrant(scan func(...any) error) (consent.Grant, error) {
	var g consent.Grant
	var body []byte
	if err := scan(&body); err != nil {
		return g, err
	}
	return g, json.Unmarshal(body, &g)
}
