package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/policy/journal"
)

func read(t *testing.T, dir string, f journal.DecisionFilter) []journal.Decision {
	t.Helper()
	r, err := OpenReader(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var list []journal.Decision
	for d, err := range r.EachDecision(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	return list
}

func TestReaderBesideARunningHost(t *testing.T) {
	dir := t.TempDir()
	if got := read(t, dir, journal.DecisionFilter{}); len(got) != 0 {
		t.Errorf("an empty folder holds %+v", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("reading an empty folder left %v, %v", entries, err)
	}
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for k := range 3 {
		if err := s.AddDecisions(t.Context(), []journal.Decision{{At: time.Unix(int64(k), 0), Policy: "p", Text: "long"}}); err != nil {
			t.Fatal(err)
		}
		if got := read(t, dir, journal.DecisionFilter{Policy: "p"}); len(got) != k+1 || got[k].Text != "long" {
			t.Errorf("after %d decisions: %+v", k+1, got)
		}
	}
	db, _, err := openStamped(t.Context(), dir) // as OpenReader does
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "DELETE FROM decisions"); err == nil || !strings.Contains(err.Error(), "readonly") {
		t.Errorf("the reader can write: %v", err)
	}
}

// TestRowsOfAnOlderSchema reads a file as an older flynn has left it, and again once it was brought up to date.
func TestRowsOfAnOlderSchema(t *testing.T) {
	dir := t.TempDir()
	older(t, dir, `INSERT INTO decisions (at, kind, turn, policy, digest, frame, calls, answer, reason, error, fuel, nanos)
		VALUES (7, 'tool', 't', 'p', 'd', x'01', x'5b5d', 'deny', 'why', '', 5, 6)`)
	check := func(when string, ds []journal.Decision) {
		t.Helper()
		if len(ds) != 1 {
			t.Fatalf("%s: %+v", when, ds)
		}
		d := ds[0]
		if d.At.UnixNano() != 7 || d.Policy != "p" || d.Answer != "deny" || d.Fuel != 5 || d.File != "" || d.Text != "" || d.Args != nil || string(d.Calls) != "[]" {
			t.Errorf("%s: %+v", when, d)
		}
	}
	check("before", read(t, dir, journal.DecisionFilter{Policy: "p"}))
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check("after", read(t, dir, journal.DecisionFilter{Policy: "p"}))
	ds, err := s.ListDecisions(t.Context(), journal.DecisionFilter{})
	if err != nil {
		t.Fatal(err)
	}
	check("by the host", ds)
}

// older makes the database of a flynn that knew the first two migrations.
func older(t *testing.T, dir, then string) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(filepath.Join(dir, "flynn.db"), ""))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, name := range []string{"0001_first.sql", "0002_egress.sql"} {
		text, err := migrations.ReadFile("migrations/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), string(text)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.ExecContext(t.Context(), "PRAGMA user_version = 2;"+then); err != nil {
		t.Fatal(err)
	}
}
