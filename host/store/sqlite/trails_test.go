package sqlite

import (
	"strings"
	"testing"
)

// TestTrailsAreFoundByIndex asks the planner: a trail must not read through all approvals and audit rows that there ever were.
func TestTrailsAreFoundByIndex(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct{ query, index string }{
		{"SELECT body FROM approvals WHERE json_extract(CAST(body AS TEXT), '$.Turn') = ?", "approvals_turn"},
		{"SELECT id FROM audit WHERE turn = ? AND turn <> '' ORDER BY id", "audit_turn"},
		{"SELECT id FROM decisions WHERE turn = ? ORDER BY id", "decisions_turn"},
		{"SELECT id FROM usage WHERE turn = ? ORDER BY id", "usage_turn"},
		{"SELECT id FROM outbox WHERE turn = ? ORDER BY id", "outbox_turn"},
		{"SELECT id FROM turns WHERE parent = ? AND parent <> '' ORDER BY id", "turns_parent"},
	} {
		plan, err := explain(t, s, c.query, "t1")
		if err != nil || !strings.Contains(plan, c.index) {
			t.Errorf("%s: %q, %v; want the index %s", c.query, plan, err, c.index)
		}
	}
}

// explain returns the plan of a query.
func explain(t *testing.T, s *Store, query string, args ...any) (string, error) {
	t.Helper()
	rows, err := s.read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			return "", err
		}
		plan = append(plan, detail)
	}
	return strings.Join(plan, "; "), rows.Err()
}
