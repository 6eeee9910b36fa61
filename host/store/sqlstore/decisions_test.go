package sqlstore_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// TestEachDecisionUsesAnIndex keeps a replay of one policy from reading the whole log, or sorting it.
func TestEachDecisionUsesAnIndex(t *testing.T) {
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := sql.Open("sqlite", filepath.Join(dir, "flynn.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for index, f := range map[string]journal.DecisionFilter{
		"decisions_policy": {Policy: "p", Since: time.Unix(1, 0), Until: time.Unix(2, 0)}, "decisions_at": {Since: time.Unix(1, 0)},
	} {
		plan := planOf(t, db, f)
		if !strings.Contains(plan, index) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%+v: %s", f, plan)
		}
	}
}

func planOf(t *testing.T, db *sql.DB, f journal.DecisionFilter) string {
	t.Helper()
	query, args := sqlstore.DecisionQuery(f)
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var a, b, c int
		var text string
		if err := rows.Scan(&a, &b, &c, &text); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, text)
	}
	return strings.Join(plan, "; ")
}
