package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// writer owns the one session that writes. The writes that arrive during a commit form the next group, as do those that arrive
// before the flush.
//
// A caller that finds no commit in progress commits by itself, which saves two hand-overs between goroutines; all others leave the
// commit to the writer's own goroutine. Statements run without a deadline: a cancelable context costs a goroutine for each, a hanging
// disk cannot be interrupted, and a commit that was interrupted may have happened. So a caller with a deadline never commits by itself.
type writer struct {
	session Session

	wake chan struct{} // capacity 1: there are pending writes
	quit chan struct{} // closed when there will be no more
	done sync.WaitGroup

	waiting sync.Mutex // guards the next two fields
	ops     []*op
	closed  bool

	// The goroutine that holds committing commits, and only it uses the fields below. over is called when the current transaction has
	// ended, either way; end is written before that.
	committing sync.Mutex
	over       []func()
	end        atEnd
	unindexed  int // the number of texts since the index of SQLite was written

	own       Ownership // used by the holder only, too
	alone     bool      // the transaction excludes those of all hosts
	committed bell
	scopes    knownScopes
}

// op is one atomic write. do may be called again after a rollback; only the last call counts.
type op struct {
	do        func(*writer) error
	done      chan error // capacity 1
	first     bool       // it precedes all others, in a group of its own
	exclusive bool       // it excludes those of all hosts, in a group of its own
}

// single reports whether an op is a group of its own.
func (o *op) single() bool { return o.first || o.exclusive }

// Bounds of a group, so that a flood cannot delay early writers for ever, nor a slow database the renewal of the host's lease.
const (
	groupMax  = 256
	groupTime = 250 * time.Millisecond
)

// patience is how long a write that nobody waits for is held back, to be committed with another one.
const patience = 5 * time.Millisecond

// write runs do in a transaction and returns when it is on stable storage. If ctx ends while waiting, the write may still happen.
func (w *writer) write(ctx context.Context, do func(*writer) error) error {
	return w.writeOp(ctx, &op{do: within(ctx, do)})
}

// writeAlone is like write, in a transaction that excludes those of all hosts.
func (w *writer) writeAlone(ctx context.Context, do func(*writer) error) error {
	return w.writeOp(ctx, &op{do: within(ctx, do), exclusive: true})
}

// writeFirst is like write, before all that waits.
func (w *writer) writeFirst(ctx context.Context, do func(*writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &op{do: within(ctx, do), first: true}
	if err := w.enqueue(o); err != nil {
		return err
	}
	w.wakeUp()
	return o.wait(ctx)
}

// errAlone is returned by a write that has to be made by writeAlone.
var errAlone = errors.New("the write has to exclude those of all hosts")

// writeEither is like write, and like writeAlone where do needs that.
func (w *writer) writeEither(ctx context.Context, do func(*writer) error) error {
	err := w.write(ctx, do)
	if errors.Is(err, errAlone) {
		err = w.writeAlone(ctx, do)
	}
	return err
}

func (w *writer) writeOp(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := w.enqueue(o)
	if err != nil {
		return err
	}
	if ctx.Done() != nil || !w.committing.TryLock() {
		w.wakeUp()
	} else {
		w.commit(w.take())
		w.committing.Unlock()
		if w.waits() {
			w.wakeUp()
		}
	}
	return o.wait(ctx)
}

// writePatiently is like write for data whose loss would do no harm: it waits a little, to be committed with others.
func (w *writer) writePatiently(ctx context.Context, do func(*writer) error) error {
	o := &op{do: within(ctx, do)}
	if err := w.enqueue(o); err != nil {
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

func (w *writer) enqueue(o *op) error {
	o.done = make(chan error, 1)
	w.waiting.Lock()
	defer w.waiting.Unlock()
	if w.closed {
		return errClosed
	}
	if o.first {
		w.ops = slices.Insert(w.ops, 0, o)
	} else {
		w.ops = append(w.ops, o)
	}
	return nil
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

// take removes the next group of pending writes.
func (w *writer) take() []*op {
	if group := w.takeMore(groupMax); len(group) > 0 {
		return group
	}
	w.waiting.Lock()
	defer w.waiting.Unlock()
	return w.cut(min(1, len(w.ops)))
}

// takeMore removes at most that many pending writes, up to the next one that is a group of its own.
func (w *writer) takeMore(most int) []*op {
	w.waiting.Lock()
	defer w.waiting.Unlock()
	n := 0
	for n < len(w.ops) && n < most && !w.ops[n].single() {
		n++
	}
	return w.cut(n)
}

// cut removes the first n pending writes; w.waiting is held.
func (w *writer) cut(n int) []*op {
	group := w.ops[:n:n]
	if w.ops = w.ops[n:]; len(w.ops) == 0 {
		w.ops = nil
	}
	return group
}

// putBack puts ops that were taken before all that wait but those of writeFirst.
func (w *writer) putBack(ops []*op) {
	w.waiting.Lock()
	defer w.waiting.Unlock()
	n := 0
	for n < len(w.ops) && w.ops[n].first {
		n++
	}
	w.ops = slices.Concat(w.ops[:n], ops, w.ops[n:])
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
		for group := w.take(); len(group) > 0; group = w.take() {
			w.commit(group)
		}
		w.committing.Unlock()
	}
}

// commit applies a group in one transaction. An op that fails is rolled back alone; a commit that fails fails them all.
//
// Rolling back alone takes savepoints or transactions, which cost several statements for each op, and ops hardly ever fail. So the group
// is first tried together, and again apart if an op has failed.
func (w *writer) commit(group []*op) {
	if len(group) == 0 {
		return // another goroutine took them
	}
	w.alone = group[0].exclusive
	err := w.session.Transaction(&w.own, w.alone, func() (err error) {
		w.begin()
		if group, err = w.together(group); err != nil {
			return err
		}
		return w.writeEnd()
	})
	errs := make([]error, len(group))
	if errors.As(err, new(OpError)) {
		err = w.apart(group, errs)
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
		if err != nil && errs[i] == nil {
			errs[i] = err
		}
		o.done <- errs[i]
	}
}

// run calls the op's function. A panic becomes the error of this write: the caller may recover from it, and the transaction would stay
// open.
func (o *op) run(w *writer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if w.own.Fenced {
		return store.ErrFenced
	}
	return o.do(w)
}

// begin forgets what a transaction that is repeated has recorded.
func (w *writer) begin() { w.end = atEnd{} }

// together runs the ops of a group up to the first failure, and then those that have arrived meanwhile, which would otherwise wait for two
// flushes. It returns those that it has run: when groupTime is over, the others wait for the next group.
func (w *writer) together(group []*op) ([]*op, error) {
	began := time.Now()
	for next := 0; next < len(group); {
		for ; next < len(group); next++ {
			if next > 0 && time.Since(began) > groupTime {
				w.putBack(group[next:])
				return group[:next], nil
			}
			if err := group[next].run(w); err != nil {
				return group, OpError{err}
			}
		}
		if group[0].single() {
			break
		}
		runtime.Gosched()
		group = append(group, w.takeMore(groupMax-len(group))...)
	}
	return group, nil
}

// apart runs each op so that it fails alone, and stores its error in errs.
func (w *writer) apart(group []*op, errs []error) error {
	return w.session.Each(&w.own, group[0].exclusive, len(group), w.begin, func(i int) error {
		before := w.end
		err := group[i].run(w)
		if err != nil {
			w.end = before
		}
		return err
	}, w.writeEnd, errs)
}

func (w *writer) exec(query string, args ...any) error { return w.session.Exec(query, args...) }

// insertTogether is the number of rows that one statement inserts.
const insertTogether = 16

// insertRows calls run for an INSERT whose query has %s in the place of the rows. Each row is written as row, with values for its
// parameters. Queries say OR FAIL, because SQLite would otherwise copy every page before it changes, to undo a part of the rows.
func insertRows[T any](run func(query string, args ...any) error, query, row string, list []T, values func(T) []any) error {
	for chunk := range slices.Chunk(list, insertTogether) {
		args := make([]any, 0, len(chunk)*strings.Count(row, "?"))
		for _, v := range chunk {
			args = append(args, values(v)...)
		}
		if err := run(fmt.Sprintf(query, row+strings.Repeat(", "+row, len(chunk)-1)), args...); err != nil {
			return err
		}
	}
	return nil
}

// changed runs query and returns the number of changed rows.
func (w *writer) changed(query string, args ...any) (int64, error) {
	return w.session.Changed(query, args...)
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
	return w.session.Row(query, args, dest...)
}

// rowsOf collects the rows of a query in the transaction.
func rowsOf[T any](w *writer, scan func(func(...any) error) (T, error), query string, args ...any) ([]T, error) {
	rows, err := w.session.Query(query, args...)
	return collect(rows, err, scan)
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
	return w.session.Close()
}
