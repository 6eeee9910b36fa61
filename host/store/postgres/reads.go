package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// reads are the connections of a pool, or of a transaction for several queries of one state.
type reads struct {
	db interface {
		Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
		QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	}
	pool *pgxpool.Pool
}

// Query implements sqlstore.Reads.
func (r reads) Query(ctx context.Context, query string, args ...any) (sqlstore.Rows, error) {
	s := translate(query)
	bound, err := s.bind(args)
	if err != nil {
		return nil, err
	}
	found, err := r.db.Query(ctx, s.text, bound...)
	return rows{found}, err
}

// Row implements sqlstore.Reads.
func (r reads) Row(ctx context.Context, query string, args ...any) sqlstore.Row {
	s := translate(query)
	bound, err := s.bind(args)
	if err != nil {
		return failed{err}
	}
	return row{r.db.QueryRow(ctx, s.text, bound...)}
}

// Snapshot implements sqlstore.Reads.
func (r reads) Snapshot(ctx context.Context) (sqlstore.Reads, func(), error) {
	tx, err := r.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, nil, err
	}
	return reads{tx, r.pool}, func() { tx.Rollback(context.WithoutCancel(ctx)) }, nil // nothing is written
}

// Passing implements sqlstore.Reads.
func (reads) Passing(err error) bool { return passing(err) }

// Dialect implements sqlstore.Reads.
func (reads) Dialect() sqlstore.Dialect { return sqlstore.Postgres }

// rows decode the texts of what they scan.
type rows struct{ pgx.Rows }

// Scan implements sqlstore.Rows.
func (r rows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	decodeAll(dest)
	return err
}

// Close implements sqlstore.Rows.
func (r rows) Close() error {
	r.Rows.Close()
	return r.Err()
}

type row struct{ pgx.Row }

// Scan implements sqlstore.Row.
func (r row) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	decodeAll(dest)
	return err
}

type failed struct{ err error }

// Scan implements sqlstore.Row.
func (f failed) Scan(...any) error { return f.err }
