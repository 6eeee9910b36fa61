package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// writer owns the one connection that writes. The writes that arrive during a commit form the next group, as do those that arrive
// before the flush.
//
// A caller that finds no commit in progress commits by itself, which saves two hand-overs between goroutines; all others leave the
// commit to the writer's own goroutine. Statements run without a deadline: a cancelable context costs a goroutine for each, and a
// hanging disk cannot be interrupted. So a caller with a deadline never commits by itself.
type writer struct {
	db   *sql.DB
	conn *sql.Conn

	wake chan struct{} // capacity 1: there are pending writes
	quit chan struct{} // closed when there will be no more
	done sync.WaitGroup

	waiting sync.Mutex // guards the next two fields
	ops     []*op
	closed  bool

	// The goroutine that holds committing commits, and only it uses the fields below. stmts are the prepared statements of conn by text;
	// over is called when the current transaction has ended, either way; end is written before that.
	committing sync.Mutex
	stmts      map[string]*sql.Stmt
	over       []func()
	end        atEnd

	own       ownership // used by the holder only, too
	committed bell
	scopes    knownScopes
}

// op is one atomic write. do may be called again after a rollback; only the last call counts.
type op struct {
	do   func(*writer) error
	done chan error // capacity 1
}

// groupMax bounds a group, so that a flood cannot delay early writers for ever.
const groupMax = 256

// patience is how long a write that nobody waits for is held back, to be committed with another one.
const patience = 5 * time.Millisecond

var errClosed = errors.New("store is closed")

// newWriter opens the writing connection. A database that is not fresh is checked for damage first, on the same connection, because
// another one would read the schema again.
func newWriter(ctx context.Context, path, host string, fresh bool) (*writer, error) {
	name := dsn(path, "")
	if fresh {
		name = newDSN(path)
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if !fresh {
		err = checkBriefly(ctx, conn, path)
	}
	if err == nil {
		err = migrate(ctx, conn)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(), db.Close())
	}
	convert(ctx, conn)
	w := &writer{db: db, conn: conn, wake: make(chan struct{}, 1), quit: make(chan struct{}), stmts: map[string]*sql.Stmt{}}
	w.done.Go(w.run)
	if err := w.enter(host); err != nil {
		return nil, errors.Join(fmt.Errorf("take the store over: %w", err), w.close())
	}
	return w, nil
}

// write runs do in a transaction and returns when it is on stable storage. If ctx ends while waiting, the write may still happen.
func (w *writer) write(ctx context.Context, do func(*writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o, err := w.enqueue(within(ctx, do))
	if err != nil {
		return err
	}
	if ctx.Done() != nil || !w.committing.TryLock() {
		w.wakeUp()
	} else {
		w.commit(w.take(groupMax))
		w.committing.Unlock()
		if w.waits() {
			w.wakeUp()
		}
	}
	return o.wait(ctx)
}

// writePatiently is like write for data whose loss would do no harm: it waits a little, to be committed with others.
func (w *writer) writePatiently(ctx context.Context, do func(*writer) error) error {
	o, err := w.enqueue(within(ctx, do))
	if err != nil {
		return err
	}
	defer time.AfterFunc(patience, w.wakeUp).Stop()
	return o.wait(ctx)
}

// settle returns when all pending writes are committed. It precedes reads, which even a fenced host may do.
func (w *writer) settle(ctx context.Context) error {
	if err := w.write(ctx, func(*writer) error { return nil }); !errors.Is(err, store.ErrFenced) {
		return err
	}
	return nil
}

func (w *writer) enqueue(do func(*writer) error) (*op, error) {
	o := &op{do: do, done: make(chan error, 1)}
	w.waiting.Lock()
	defer w.waiting.Unlock()
	if w.closed {
		return nil, errClosed
	}
	w.ops = append(w.ops, o)
	return o, nil
}

func (o *op) wait(ctx context.Context) error {
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take removes at most that many pending writes.
func (w *writer) take(most int) []*op {
	w.waiting.Lock()
	defer w.waiting.Unlock()
	group := w.ops
	if len(group) > most {
		group, w.ops = group[:most:most], group[most:]
		return group
	}
	w.ops = nil
	return group
}

func (w *writer) waits() bool {
	w.waiting.Lock()
	defer w.waiting.Unlock()
	return len(w.ops) > 0
}

// run commits what no caller commits by itself.
func (w *writer) run() {
	for last := false; !last; {
		select {
		case <-w.wake:
		case <-w.quit:
			last = true
		}
		w.committing.Lock()
		for group := w.take(groupMax); len(group) > 0; group = w.take(groupMax) {
			w.commit(group)
		}
		w.committing.Unlock()
	}
}

// commit applies a group in one transaction. An op that fails is rolled back alone; a commit that fails fails them all.
//
// Rolling back alone takes savepoints, which cost two statements for each op and a copy of every page that it touches, and ops hardly
// ever fail. So the group is first tried without savepoints, and again with them if an op has failed.
func (w *writer) commit(group []*op) {
	if len(group) == 0 {
		return // another goroutine took them
	}
	err := w.transaction(func() (err error) {
		group, err = w.together(group)
		return err
	})
	errs := make([]error, len(group))
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
	if err == nil {
		w.committed.ring()
	}
	for i, o := range group {
		if err != nil {
			errs[i] = err
		}
		o.done <- errs[i]
	}
}

// transaction commits what do does, or rolls it back.
func (w *writer) transaction(do func() error) error {
	w.end = atEnd{}
	err := w.exec("BEGIN IMMEDIATE")
	if err == nil {
		err = w.confirm()
	}
	if err == nil {
		err = do()
	}
	if err == nil {
		err = w.writeEnd()
	}
	if err == nil {
		err = w.exec("COMMIT")
	}
	if err != nil {
		w.exec("ROLLBACK") // fails if BEGIN did
	}
	return err
}

// opError is the error of an op rather than of the transaction.
type opError struct{ error }

// run calls the op's function. A panic becomes the error of this write: the caller may recover from it, and the transaction would stay
// open.
func (o *op) run(w *writer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if w.own.fenced {
		return store.ErrFenced
	}
	return o.do(w)
}

// together runs the ops of a group up to the first failure. It then adds ops that have arrived meanwhile, which would otherwise wait
// for two flushes. It returns all ops that it took.
func (w *writer) together(group []*op) ([]*op, error) {
	for next := 0; next < len(group); {
		for ; next < len(group); next++ {
			if err := group[next].run(w); err != nil {
				return group, opError{err}
			}
		}
		runtime.Gosched()
		group = append(group, w.take(groupMax-len(group))...)
	}
	return group, nil
}

// apart runs each op in a savepoint and stores its error in errs.
func (w *writer) apart(group []*op, errs []error) (err error) {
	for i, o := range group {
		if errs[i], err = w.apply(o); err != nil {
			return err
		}
	}
	return nil
}

// apply runs one op in a savepoint. txErr is an error of the transaction itself.
func (w *writer) apply(o *op) (opErr, txErr error) {
	if err := w.exec("SAVEPOINT op"); err != nil {
		return nil, err
	}
	before := w.end
	if opErr = o.run(w); opErr != nil {
		w.end = before
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

// changed runs query and returns the number of changed rows.
func (w *writer) changed(query string, args ...any) (int64, error) {
	r, err := w.result(query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// changeOne runs query, which changes one row, or returns store.ErrConflict if the row is not in the state that query requires.
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

// row scans the only row of query.
func (w *writer) row(query string, args []any, dest ...any) error {
	s, err := w.stmt(query)
	if err != nil {
		return err
	}
	return s.QueryRowContext(context.Background(), args...).Scan(dest...)
}

// close commits pending writes.
func (w *writer) close() error {
	w.waiting.Lock()
	w.closed = true
	w.waiting.Unlock()
	close(w.quit)
	w.done.Wait()
	w.committing.Lock()
	defer w.committing.Unlock()
	var errs []error
	for _, s := range w.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, w.conn.Close(), w.db.Close())...)
}
