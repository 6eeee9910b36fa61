package database

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/internal/redact"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
	"github.com/flynnhost/flynn/host/store/sqlstore"
	"github.com/flynnhost/flynn/host/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main{M: m}) }

// TestEitherDatabaseIsUsedAlike opens, refuses, reads and checks the store in a file and in a database.
func TestEitherDatabaseIsUsedAlike(t *testing.T) {
	server := postgrestest.Shared(t)
	for name, at := range map[string]Location{
		"SQLite":   At(t.TempDir(), "", "", ""),
		"Postgres": At(t.TempDir(), "FLYNN_STORE", redact.Secret(server.URL(server.Database(t))), ""),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if s, err := at.Stamp(ctx); err != nil || s != (sqlstore.Stamp{}) {
				t.Errorf("before the first start the stamp is %+v, %v", s, err)
			}
			if r, err := at.OpenReader(ctx); err != nil {
				t.Errorf("before the first start: %v", err)
			} else if sessions, err := r.Sessions(ctx, 10); err != nil || len(sessions) != 0 {
				t.Errorf("before the first start there are the sessions %v, %v", sessions, err)
			} else if err := r.Close(); err != nil {
				t.Error(err)
			}
			s, err := at.Open(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := storetest.Turn(ctx, s, 1); err != nil {
				t.Fatal(err)
			}
			if _, err := at.Open(ctx); !errors.Is(err, store.ErrLocked) {
				t.Errorf("a second host: %v", err)
			}
			r, err := at.OpenReader(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if sessions, err := r.Sessions(ctx, 10); err != nil || len(sessions) != 1 {
				t.Errorf("beside the host there are the sessions %v, %v", sessions, err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if latest, err := at.Check(ctx); err != nil || time.Since(latest) > time.Hour {
				t.Errorf("the latest turn was at %v, %v", latest, err)
			}
			if s, err := at.Stamp(ctx); err != nil || s.Schema == 0 || s.Writer == "" {
				t.Errorf("the stamp is %+v, %v", s, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAnEmptyDatabaseBesideAFileIsRefused: sessions and approvals would seem to be gone.
func TestAnEmptyDatabaseBesideAFileIsRefused(t *testing.T) {
	server := postgrestest.Shared(t)
	dir := t.TempDir()
	s, err := At(dir, "", "", "").Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	at := At(dir, "FLYNN_STORE", redact.Secret(server.URL(server.Database(t))), "")
	if _, err := at.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "flynn store copy --from "+dir+" --to FLYNN_STORE") {
		t.Errorf("error is %v", err)
	}
	if err := os.Rename(filepath.Join(dir, "flynn.db"), filepath.Join(dir, "old.db")); err != nil {
		t.Fatal(err)
	}
	if s, err = at.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Close()
}
