// Package database opens the store that a configuration names: the SQLite file in its folder, or a Postgres database.
//
// Start with At and Location.Open. The folder is locked in either case, because workspaces, media and the state of plugins are in it.
package database

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/internal/redact"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/postgres"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// Location says where a store is.
type Location struct {
	Dir      string
	Variable string // of the environment, which holds URL; "" for SQLite
	URL      redact.Secret
	Host     string // the name of this host among those that share the database; "" for one that has its store alone
}

// At returns a location. The arguments are what config.Store.Location returns.
func At(dir, variable string, url redact.Secret, host string) Location {
	return Location{dir, variable, url, host}
}

// Postgres reports whether the store is in a Postgres database.
func (l Location) Postgres() bool { return l.Variable != "" }

// String names the location without what is secret.
func (l Location) String() string {
	if l.Postgres() {
		return "the database that " + l.Variable + " names"
	}
	return l.Dir
}

func (l Location) address() postgres.Address {
	return postgres.Address{URL: string(l.URL), Name: l.Variable}
}

// Open opens the store for its host, and updates its schema.
func (l Location) Open(ctx context.Context) (store.Store, error) {
	if !l.Postgres() {
		s, err := sqlite.Open(ctx, l.Dir)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	if err := os.MkdirAll(l.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make store folder: %w", err)
	}
	lock, err := sqlite.Lock(l.Dir)
	if err != nil {
		return nil, err
	}
	s, err := l.openPostgres(ctx)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return inFolder{s, lock}, nil
}

// openPostgres refuses an empty database beside a store of SQLite, whose sessions and approvals would seem to be gone.
func (l Location) openPostgres(ctx context.Context) (*postgres.Store, error) {
	if info, err := os.Stat(filepath.Join(l.Dir, "flynn.db")); err == nil && info.Size() > 0 {
		s, err := postgres.ReadStamp(ctx, l.address())
		if err != nil {
			return nil, err
		}
		if s.Schema == 0 {
			return nil, fmt.Errorf("open store: %s is empty, but there is a store in %s: copy it with: flynn store copy --from %s --to %s, or move %s away",
				l, l.Dir, l.Dir, l.Variable, filepath.Join(l.Dir, "flynn.db"))
		}
	}
	if l.Host != "" {
		return postgres.Join(ctx, l.address(), l.Host)
	}
	return postgres.Open(ctx, l.address())
}

// inFolder is a store with the lock of its folder.
type inFolder struct {
	*postgres.Store
	lock *os.File
}

// Close closes the store and unlocks the folder.
func (s inFolder) Close() error { return errors.Join(s.Store.Close(), s.lock.Close()) }

// OpenReader opens the store for reading. A host may be running. The caller must close the reader.
func (l Location) OpenReader(ctx context.Context) (*sqlstore.Reader, error) {
	if l.Postgres() {
		return postgres.OpenReader(ctx, l.address())
	}
	return sqlite.OpenReader(ctx, l.Dir)
}

// Stamp reads the stamp of the store, also of one that this Flynn refuses. A host may be running.
func (l Location) Stamp(ctx context.Context) (sqlstore.Stamp, error) {
	if l.Postgres() {
		return postgres.ReadStamp(ctx, l.address())
	}
	return sqlite.ReadStamp(ctx, l.Dir)
}

// Check looks at the store and returns when its latest turn started; the zero time if there is none. Its error says that the store is
// missing, damaged, of a newer Flynn (sqlstore.ErrNewer) or cannot be reached. A host may be running.
func (l Location) Check(ctx context.Context) (latest time.Time, err error) {
	if l.Postgres() {
		return postgres.Check(ctx, l.address())
	}
	h, err := sqlite.Check(ctx, l.Dir)
	return h.Latest, err
}
