// Package sqlstore holds the statements of the durable state once, for every SQL database that keeps it.
//
// Start with New. Packages sqlite and postgres open a database and give it to New as Reads and a Session. Statements are written in the
// dialect of SQLite as far as Postgres has the same, with the parameters ? or ?1; package postgres translates the rest, and where the
// two have nothing in common both statements stand side by side here. The package opens no database and makes no schema.
package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// Rows are the rows of a query.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// Row is the only row of a query. Scan returns sql.ErrNoRows if there is none.
type Row interface{ Scan(dest ...any) error }

// Reads runs queries in parallel.
type Reads interface {
	Query(ctx context.Context, query string, args ...any) (Rows, error)
	Row(ctx context.Context, query string, args ...any) Row
	// Snapshot begins queries that all see the same state; end must be called.
	Snapshot(ctx context.Context) (r Reads, end func(), err error)
	// Passing reports whether an error is a temporary lack of resources or of a connection, so that a query may succeed later.
	Passing(err error) bool
	Dialect() Dialect
}

// Dialect says which of two statements a database understands.
type Dialect int

// The dialects.
const (
	SQLite Dialect = iota
	Postgres
)

// Session is the one connection that writes. Only one goroutine uses it at a time.
type Session interface {
	// Transaction confirms who owns what, calls do, and commits or rolls back. An exclusive transaction excludes those of all hosts. do is
	// called again if the transaction has to be repeated. When Transaction returns no error the commit is on stable storage.
	Transaction(own *Ownership, exclusive bool, do func() error) error
	// Each is like Transaction for n writes: the failure of one undoes only that one, and is stored in errs. begin and end are called at
	// the beginning and the end of each transaction. If Each returns an error, none of the writes has happened.
	Each(own *Ownership, exclusive bool, n int, begin func(), do func(i int) error, end func() error, errs []error) error
	// Exec runs a statement whose result does not matter. Its failure may be returned by a later call in the same transaction, as an
	// OpError.
	Exec(query string, args ...any) error
	// Changed runs a statement and returns the number of changed rows.
	Changed(query string, args ...any) (int64, error)
	// Insert runs an INSERT of one row, and returns the id of the row or, if ON CONFLICT has nothing done, sql.ErrNoRows.
	Insert(query string, args ...any) (id int64, err error)
	// Row scans the only row of a query, or returns sql.ErrNoRows.
	Row(query string, args []any, dest ...any) error
	// Query returns the rows of a query. They must be closed before another call.
	Query(query string, args ...any) (Rows, error)
	// Lock excludes transactions that lock the same name, until the end of the transaction.
	Lock(name string) error
	Dialect() Dialect
	Close() error
}

// OpError is the error of a write rather than of the transaction.
type OpError struct{ Err error }

func (e OpError) Error() string { return e.Err.Error() }

// Unwrap implements what errors.Is looks for.
func (e OpError) Unwrap() error { return e.Err }

// Store implements store.Store but for Shrink, which each database does in its own way.
type Store struct {
	writer *writer
	read   Reads
}

// New returns the store of a session, which is the newest incarnation of a host. Closing the store closes the session, and not the
// reads.
func New(s Session, r Reads, own Ownership) *Store {
	w := &writer{session: s, own: own, unindexed: IndexTogether, wake: make(chan struct{}, 1), quit: make(chan struct{})}
	w.done.Go(w.run)
	return &Store{w, r}
}

// NewIncarnation returns the ownership of a host that starts.
func NewIncarnation(host string) Ownership {
	return Ownership{Host: host, Incarnation: store.NewID(time.Now())}
}

// Close waits for running writes.
func (s *Store) Close() error { return s.writer.close() }

// Write runs do in a transaction and returns when it is on stable storage. If ctx ends while waiting, the write may still happen.
func (s *Store) Write(ctx context.Context, do func(Session) error) error {
	return s.writer.write(ctx, func(w *writer) error { return do(w.session) })
}

var errClosed = errors.New("store is closed")
