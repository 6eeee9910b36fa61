package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/flynnhost/flynn/host/store"
)

// writer owns the one connection that writes. What waits while a commit is under way becomes the next group.
// Statements run without a deadline: a context that can end costs a goroutine for each, and a disk
// that hangs cannot be interrupted. Callers wait with a deadline of their own.
type writer struct {
	db   *sql.DB
	conn *sql.Conn

	ops  chan *op
	quit chan struct{} // closed: take no more
	gone chan struct{} // closed: nothing will be answered any more
	done sync.WaitGroup

	// Only the writer's goroutine touches these. stmts are prepared on conn by text; over is called when the transaction under
	// way is over, however it ended.
	stmts map[string]*sql.Stmt
	over  []func()

	places knownPlaces
}

// op is one atomic write. do may be called a second time, after a rollback, and then only that call counts.
type op struct {
	do   func(*writer) error
	done chan error
}

// groupMax bounds one group, so that a flood cannot keep early writers waiting for ever.
const groupMax = 256

var errClosed = errors.New("store is closed")

func newWriter(ctx context.Context, dsn string) (*writer, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := migrate(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(), db.Close())
	}
	w := &writer{db: db, conn: conn, ops: make(chan *op, groupMax), quit: make(chan struct{}), gone: make(chan struct{}), stmts: map[string]*sql.Stmt{}}
	w.done.Go(w.run)
	return w, nil
}

// write runs do in a transaction and returns once it is on stable storage.
// A context that ends while waiting leaves the fate of the write open; the caller must not assume that it failed.
func (w *writer) write(ctx context.Context, do func(*writer) error) error {
	o := &op{do: do, done: make(chan error, 1)}
	select {
	case w.ops <- o:
	case <-w.quit:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-o.done:
		return err
	case <-w.gone:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) run() {
	group := make([]*op, 0, groupMax)
	for {
		select {
		case o := <-w.ops:
			group = append(group[:0], o)
		case <-w.quit:
			return
		}
		for more := true; more && len(group) < groupMax; {
			select {
			case o := <-w.ops:
				group = append(group, o)
			default:
				more = false
			}
		}
		w.commit(group)
	}
}

// commit applies a group in one transaction. An op that fails is rolled back alone; a commit that fails fails them all.
//
// Savepoints, which that takes, cost two statements for each op and a copy of every page that it touches, and ops hardly
// ever fail. So the group is tried without, and once more with them when an op has failed.
func (w *writer) commit(group []*op) {
	errs := make([]error, len(group))
	err := w.transaction(func() error { return w.together(group) })
	if errors.As(err, new(opError)) {
		err = w.transaction(func() error { return w.apart(group, errs) })
	}
	if err != nil {
		err = fmt.Errorf("commit to the store: %w", err)
	}
	for _, f := range w.over {
		f()
	}
	w.over = w.over[:0]
	for i, o := range group {
		if err != nil {
			errs[i] = err
		}
		o.done <- errs[i]
	}
}

// transaction commits what do does, or leaves nothing of it behind.
func (w *writer) transaction(do func() error) error {
	err := w.exec("BEGIN IMMEDIATE")
	if err == nil {
		err = do()
	}
	if err == nil {
		err = w.exec("COMMIT")
	}
	if err != nil {
		w.exec("ROLLBACK") // fails when BEGIN did, which is fine
	}
	return err
}

// opError is the error of an op, as opposed to one of the transaction.
type opError struct{ error }

// together runs the ops of a group up to the first that fails.
func (w *writer) together(group []*op) error {
	for _, o := range group {
		if err := o.do(w); err != nil {
			return opError{err}
		}
	}
	return nil
}

// apart runs each op in a savepoint and keeps its error in errs.
func (w *writer) apart(group []*op, errs []error) (err error) {
	for i, o := range group {
		if errs[i], err = w.apply(o); err != nil {
			return err
		}
	}
	return nil
}

// apply runs one op in a savepoint. The second error is one of the transaction itself.
func (w *writer) apply(o *op) (opErr, txErr error) {
	if err := w.exec("SAVEPOINT op"); err != nil {
		return nil, err
	}
	if opErr = o.do(w); opErr != nil {
		if err := w.exec("ROLLBACK TO op"); err != nil {
			return opErr, err
		}
	}
	return opErr, w.exec("RELEASE op")
}

// stmt returns the prepared statement for a fixed query text.
func (w *writer) stmt(query string) (*sql.Stmt, error) {
	if s, ok := w.stmts[query]; ok {
		return s, nil
	}
	s, err := w.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", query, err)
	}
	w.stmts[query] = s
	return s, nil
}

func (w *writer) exec(query string, args ...any) error {
	_, err := w.result(query, args...)
	return err
}

func (w *writer) result(query string, args ...any) (sql.Result, error) {
	s, err := w.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(context.Background(), args...)
}

// changed runs query and tells how many rows it changed.
func (w *writer) changed(query string, args ...any) (int64, error) {
	r, err := w.result(query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// changeOne runs query, which is about one row, or returns store.ErrConflict where that is not in the state that query asks for.
func (w *writer) changeOne(query string, args ...any) error {
	n, err := w.changed(query, args...)
	if err == nil && n != 1 {
		err = store.ErrConflict
	}
	return err
}

// conflict turns "no such row in that state" into store.ErrConflict.
func conflict(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrConflict
	}
	return err
}

// row scans the one row of query.
func (w *writer) row(query string, args []any, dest ...any) error {
	s, err := w.stmt(query)
	if err != nil {
		return err
	}
	return s.QueryRowContext(context.Background(), args...).Scan(dest...)
}

func (w *writer) close() error {
	close(w.quit)
	w.done.Wait()
	close(w.gone)
	var errs []error
	for _, s := range w.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, w.conn.Close(), w.db.Close())...)
}
