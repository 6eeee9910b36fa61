package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/buildinfo"
)

// Stamp says who has written a store.
type Stamp struct {
	Schema int    // its version; 0 for a store that does not exist yet
	Writer string // the version of Flynn that wrote last; "" if it is not recorded
}

// NewestSchema returns the version of the schema that this Flynn writes.
func NewestSchema() int { return len(scripts()) }

// ReadStamp reads the stamp of the store in dir, also of one that this Flynn refuses. A host may be running.
func ReadStamp(ctx context.Context, dir string) (s Stamp, err error) {
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

func stampOf(ctx context.Context, db querier) (s Stamp, err error) {
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&s.Schema); err != nil {
		return s, fmt.Errorf("read schema version: %w", err)
	}
	if err := db.QueryRowContext(ctx, "SELECT version FROM written_by").Scan(&s.Writer); err != nil {
		s.Writer = "" // by a Flynn that records no version, or records it elsewhere
	}
	return s, nil
}

// ErrNewer is matched by the error of a store that a newer Flynn has written.
var ErrNewer = errors.New("the store is of a newer flynn")

type newerError string

func (e newerError) Error() string      { return string(e) }
func (newerError) Is(target error) bool { return target == ErrNewer }

// newer returns the error of a store that a newer Flynn has written.
func (s Stamp) newer() error {
	know := NewestSchema()
	if s.Schema <= know {
		return nil
	}
	writer := "a newer flynn"
	if s.Writer != "" {
		writer = fmt.Sprintf("flynn %.64q", s.Writer)
	}
	return newerError(fmt.Sprintf("the store was written by %s and has schema version %d; this is flynn %q, which knows versions up to %d: "+
		"install the newer flynn again, or use a copy of the folder from before the upgrade", writer, s.Schema, buildinfo.Version(), know))
}
