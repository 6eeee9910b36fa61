package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"syscall"

	lib "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// reads are the connections of a pool, or of a transaction for several queries of one state.
type reads struct {
	db interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
	pool *sql.DB
}

func readsOf(pool *sql.DB) sqlstore.Reads { return reads{pool, pool} }

// Query implements sqlstore.Reads.
func (r reads) Query(ctx context.Context, query string, args ...any) (sqlstore.Rows, error) {
	return r.db.QueryContext(ctx, query, args...)
}

// Row implements sqlstore.Reads.
func (r reads) Row(ctx context.Context, query string, args ...any) sqlstore.Row {
	return r.db.QueryRowContext(ctx, query, args...)
}

// Snapshot implements sqlstore.Reads.
func (r reads) Snapshot(ctx context.Context) (sqlstore.Reads, func(), error) {
	tx, err := r.pool.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, nil, err
	}
	return reads{tx, r.pool}, func() { tx.Rollback() }, nil // nothing is written
}

// Dialect implements sqlstore.Reads.
func (r reads) Dialect() sqlstore.Dialect { return sqlstore.SQLite }

// Passing implements sqlstore.Reads: it tells a temporary lack of resources from damage.
func (r reads) Passing(err error) bool {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC} {
		if errors.Is(err, lack) {
			return true
		}
	}
	var e *lib.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff { // the rest of the bits say more
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_NOMEM, codes.SQLITE_IOERR, codes.SQLITE_FULL, codes.SQLITE_CANTOPEN, codes.SQLITE_PROTOCOL:
		return true
	}
	return false
}
