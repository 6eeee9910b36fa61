package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// NewestSchema returns the version of the schema that this Flynn writes.
func NewestSchema() int { return len(scripts()) }

// ReadStamp reads the stamp of the store in dir, also of one that this Flynn refuses. A host may be running.
func ReadStamp(ctx context.Context, dir string) (s sqlstore.Stamp, err error) {
	if _, err := os.Stat(filepath.Join(dir, "flynn.db")); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	db, err := openToRead(dir)
	if err != nil {
		return s, err
	}
	defer db.Close()
	if s, err = stampOf(ctx, db); err != nil {
		return s, fmt.Errorf("open store in %s: %w", dir, err)
	}
	return s, nil
}

// querier is what a connection and a pool have in common.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func stampOf(ctx context.Context, db querier) (s sqlstore.Stamp, err error) {
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&s.Schema); err != nil {
		return s, fmt.Errorf("read schema version: %w", err)
	}
	if err := db.QueryRowContext(ctx, "SELECT version FROM written_by").Scan(&s.Writer); err != nil {
		s.Writer = "" // by a Flynn that records no version, or records it elsewhere
	}
	return s, nil
}

// newer returns the error of a store that a newer Flynn has written.
func newer(s sqlstore.Stamp) error {
	return s.Newer(NewestSchema(), "use a copy of the folder from before the upgrade")
}
