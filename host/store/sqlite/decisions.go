package sqlite

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/store"
)

// AddDecisions implements store.Decisions.
func (s *Store) AddDecisions(ctx context.Context, ds []store.Decision) error {
	if err := s.writer.write(ctx, func(w *writer) error { return addDecisions(w, "", ds) }); err != nil {
		return fmt.Errorf("add decisions: %w", err)
	}
	return nil
}

// addDecisions inserts decisions; turn, if set, replaces theirs.
func addDecisions(w *writer, turn string, ds []store.Decision) error {
	for _, d := range ds {
		if turn != "" {
			d.Turn = turn
		}
		err := w.exec(`INSERT INTO decisions (at, kind, turn, policy, digest, frame, calls, answer, reason, error, fuel, nanos)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			nanos(d.At), d.Kind, d.Turn, d.Policy, d.Digest, d.Frame, []byte(d.Calls), d.Answer, d.Reason, d.Error, d.Fuel, d.Nanos)
		if err != nil {
			return err
		}
	}
	return nil
}

// ListDecisions implements store.Decisions.
func (s *Store) ListDecisions(ctx context.Context, f store.DecisionFilter) ([]store.Decision, error) {
	if f.Limit <= 0 {
		f.Limit = 1000
	}
	return list(ctx, s.read, scanDecision, `SELECT id, at, kind, turn, policy, digest, frame, calls, answer, reason, error, fuel, nanos
		FROM decisions WHERE (?1 = '' OR kind = ?1) AND (?2 = '' OR policy = ?2) AND (?3 = '' OR turn = ?3) AND at >= ?4
		ORDER BY id LIMIT ?5`, f.Kind, f.Policy, f.Turn, nanos(f.Since), f.Limit)
}

func scanDecision(scan func(...any) error) (store.Decision, error) {
	var d store.Decision
	var at int64
	var calls []byte
	err := scan(&d.ID, &at, &d.Kind, &d.Turn, &d.Policy, &d.Digest, &d.Frame, &calls, &d.Answer, &d.Reason, &d.Error, &d.Fuel, &d.Nanos)
	d.At, d.Calls = instant(at), calls
	return d, err
}
