package sqlite

import (
	"database/sql"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/agent/memory"
)

// TestNotesOfAnOlderFlynnAreKept brings a store up to date in which notes had no scope.
func TestNotesOfAnOlderFlynnAreKept(t *testing.T) {
	dir := t.TempDir()
	db, err := sql.Open("sqlite", dsn(filepath.Join(dir, "flynn.db"), ""))
	if err != nil {
		t.Fatal(err)
	}
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	before := versionWith("0010_memory.sql") - 1
	for _, f := range files[:before] {
		text, err := migrations.ReadFile("migrations/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(string(text)); err != nil {
			t.Fatalf("%s: %v", f.Name(), err)
		}
	}
	if _, err := db.Exec(fmt.Sprintf(`INSERT INTO notes (agent, key, text, sender, labels, updated) VALUES ('helper', 'cat', 'called Mia', 'irc:ann', '["web:x"]', 5);
		PRAGMA user_version = %d`, before)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n, err := s.ReadNote(t.Context(), "helper", "", "cat")
	if err != nil || n.Text != "called Mia" || n.By != "irc:ann" || !slices.Equal(n.Labels, []string{"web:x"}) {
		t.Errorf("read %+v, %v", n, err)
	}
	found, err := s.SearchNotes(t.Context(), memory.NoteQuery{Words: "mia"})
	if err != nil || len(found) != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
}

// versionWith returns the schema version of a migration.
func versionWith(name string) int {
	return slices.IndexFunc(scripts(), func(f fs.DirEntry) bool { return f.Name() == name }) + 1
}
