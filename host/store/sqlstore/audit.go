package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/tool/consent"
)

// AddAudit implements consent.Audit.
func (s *Store) AddAudit(ctx context.Context, rows []consent.AuditRow) error {
	err := s.writer.write(ctx, func(w *writer) error {
		for _, r := range rows {
			if err := w.audit(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add to the audit log: %w", err)
	}
	return nil
}

// audit adds a row to the transaction under way.
func (w *writer) audit(r consent.AuditRow) error {
	return w.exec("INSERT INTO audit (at, kind, subject, actor, session, agent, tool, turn, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		nanos(r.At), r.Kind, r.Subject, r.Actor, r.Session, r.Agent, r.Tool, r.Turn, r.Detail)
}

// ListAudit implements consent.Audit.
func (s *Store) ListAudit(ctx context.Context, f consent.AuditFilter) ([]consent.AuditRow, error) {
	if f.Limit <= 0 {
		f.Limit = 1000
	}
	latest, err := list(ctx, s.read, scanAudit, `SELECT id, at, kind, subject, actor, session, agent, tool, turn, detail FROM audit
		WHERE (?1 = '' OR kind = ?1) AND (?2 = '' OR subject = ?2) AND at >= ?3 AND (CAST(?5 AS BIGINT) = 0 OR id < ?5) ORDER BY id DESC LIMIT ?4`,
		f.Kind, f.Subject, nanos(f.Since), f.Limit, f.Below)
	slices.Reverse(latest)
	return latest, err
}

func scanAudit(scan func(...any) error) (consent.AuditRow, error) {
	var r consent.AuditRow
	var at int64
	err := scan(&r.ID, &at, &r.Kind, &r.Subject, &r.Actor, &r.Session, &r.Agent, &r.Tool, &r.Turn, &r.Detail)
	r.At = instant(at)
	return r, err
}
