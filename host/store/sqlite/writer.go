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

// writer owns the one connection that writes. What waits while a commit is under way becomes the next group, and so does what comes
// before that is flushed.
//
// A caller that finds no commit in progress commits by itself, which saves two hand-overs between goroutines; all others leave that to the writer's own
// goroutine. Statements run without a deadline: a context that can end costs a goroutine for each, and a disk
// that hangs cannot be interrupted. So who waits with a deadline of his own never commits himself.
type writer struct {
	db   *sql.DB
	conn *sql.Conn

	wake chan struct{} // capacity 1: something waits
	quit chan struct{} // closed: there will be no more
	done sync.WaitGroup

	waiting sync.Mutex // guards these two
	ops     []*op
	closed  bool

	// The holder commits, and it alone touches the fields below. stmts are prepared on conn by text; over is called when the
	// transaction under way is over, however it ended.
	committing sync.Mutex
	stmts      map[string]*sql.Stmt
	over       []func()

	own    ownership // the holder's as well
	scopes knownScopes
}

// op is one atomic write. do may be called a second time, after a rollback, and then only that call counts.
type op struct {
	do   func(*writer) error
	done chan error // capacity 1
}

// groupMax bounds one group, so that a flood cannot keep early writers waiting for ever.
const groupMax = 256

// patience is how long a write for which nobody waits is held back, to be committed with another one.
const patience = 5 * time.Millisecond

var errClosed = errors.New("store is closed")

// newWriter opens the database that writes go through. One that is not fresh is checked for damage first, on the same connection: another
// one would read the schema once more.
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
		err = check(ctx, conn, path)
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

// write runs do in a transaction and returns once it is on stable storage.
// A context that ends while waiting leaves the fate of the write open; the caller must not assume that it failed.
func (w *writer) write(ctx context.Context, do func(*writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o, err := w.enqueue(do)
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

// writePatiently is write for what would do no harm if it were lost: it waits a little for others to be committed with.
func (w *writer) writePatiently(ctx context.Context, do func(*writer) error) error {
	o, err := w.enqueue(do)
	if err != nil {
		return err
	}
	defer time.AfterFunc(patience, w.wakeUp).Stop()
	return o.wait(ctx)
}

// settle returns once everything that waits is committed. It is for reads, which a host that was fenced out may go on with.
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

// take takes what waits, so many at most.
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

// run commits what nobody commits by himself.
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
// Savepoints, which that takes, cost two statements for each op and a copy of every page that it touches, and ops hardly
// ever fail. So the group is tried without, and once more with them when an op has failed.
func (w *writer) commit(group []*op) {
	if len(group) == 0 {
		return // another one took it
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
		err = w.confirm()
	}
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

// run does what the op is for. A bug in it fails this write alone: who commits by himself may outlive a panic, and would leave the
// transaction open to all who come after.
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

// together runs the ops of a group up to the first that fails, and then those of callers that come before nothing else is left to do but to
// flush: who came during the flush would wait for two. It returns all that it took.
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
	if opErr = o.run(w); opErr != nil {
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

// close commits what waits.
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
