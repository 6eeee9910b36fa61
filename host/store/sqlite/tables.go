package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Tables is a database whose host cannot run until Close.
type Tables struct {
	*sql.DB
	lock *os.File
}

// OpenTables opens the tables of the database in dir as they are, and keeps a host from starting on it. With create, the schema is made or
// updated; without, it must be the present one.
func OpenTables(ctx context.Context, dir string, create bool) (*Tables, error) {
	if create {
		s, err := Open(ctx, dir)
		if err != nil {
			return nil, err
		}
		if err := s.Close(); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(filepath.Join(dir, "flynn.db")); err != nil {
		return nil, fmt.Errorf("open store in %s: there is no store: %w", dir, err)
	}
	lock, err := Lock(dir)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn(filepath.Join(dir, "flynn.db"), ""))
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	db.SetMaxOpenConns(1)
	s, err := stampOf(ctx, db)
	if err == nil {
		err = newer(s)
	}
	if err == nil && s.Schema < NewestSchema() {
		err = fmt.Errorf("it has schema version %d, and this flynn has %d: start this flynn with it once, which updates it", s.Schema, NewestSchema())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store in %s: %w", dir, err), db.Close(), lock.Close())
	}
	return &Tables{db, lock}, nil
}

// Close closes the database and unlocks the folder.
func (t *Tables) Close() error { return errors.Join(t.DB.Close(), t.lock.Close()) }
