package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// session is the one connection that writes.
//
// A transaction costs few round trips: statements whose result does not matter are queued, and are sent with the next one whose result
// does, or with COMMIT; BEGIN and the fence are sent with the first. The fence fails if another incarnation has replaced the host, or if
// what the host knows about its keys is out of date, and then nothing that was sent with it happens. Until it has been sent, what the host
// owns is taken from the transaction before, and the transaction is repeated if that was wrong.
//
// No statement has a deadline: a cancelled COMMIT may have happened, or under synchronous replication only on one of two servers.
// Connections end by themselves when the other side is gone; see config.go.
type session struct {
	db          *database
	host        string
	incarnation string    // "" before the host has entered
	alone       bool      // no other host may write
	locks       bool      // no other process may be this host; only in tests one may
	conn        *pgx.Conn // nil if there is none

	// Of the transaction under way.
	own       *sqlstore.Ownership
	exclusive bool
	sent      bool // BEGIN and the fence were sent, and the fence holds
	queue     []queued
	token     int64 // that the fence writes; it grows with each transaction

	moves        int64 // of keys between hosts, when the ownership was read
	timeline     int64 // of the first connection; 0 if it is not known
	acknowledged int64 // the token of the last transaction that was committed
	ended        error // why this process can write no more
}

var _ sqlstore.Session = (*session)(nil)

type queued struct {
	text string
	args []any
}

// errMoved repeats a transaction that began with what the host no longer owns, or did not own yet.
var errMoved = errors.New("keys have moved to other hosts")

// Pauses of a session that waits for its server.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// Transaction implements sqlstore.Session. It is repeated while the server is away, up to the patience of the database, or if it was
// rolled back because of another one.
func (s *session) Transaction(own *sqlstore.Ownership, exclusive bool, do func() error) error {
	late := time.Now().Add(s.db.patience)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := s.attempt(own, exclusive, do)
		switch {
		case errors.Is(err, errMoved):
			own.Read = false
			continue
		case err == nil || !s.broken(err) && !repeatable(err):
			return err
		case time.Now().After(late):
			return fmt.Errorf("%w: %w", store.ErrPassing, err)
		}
		time.Sleep(pause)
	}
}

// broken reports whether a transaction failed because its connection did. A write may itself return an error of a network or a file.
func (s *session) broken(err error) bool {
	if codeOf(err) == codeReadOnly {
		s.drop() // the next connection may be to the primary
	}
	return lost(err) && (s.conn == nil || s.conn.IsClosed() || codeOf(err) != "" || errors.Is(err, errNoConnection))
}

// Each implements sqlstore.Session. Each write has a transaction of its own.
func (s *session) Each(own *sqlstore.Ownership, exclusive bool, n int, begin func(), do func(int) error, end func() error, errs []error) error {
	for i := range n {
		errs[i] = s.Transaction(own, exclusive, func() error {
			begin()
			if err := do(i); err != nil {
				return sqlstore.OpError{Err: err}
			}
			return end()
		})
		var failed sqlstore.OpError
		if errors.As(errs[i], &failed) {
			errs[i] = failed.Err
		} else if errs[i] != nil {
			errs[i] = fmt.Errorf("commit to the store: %w", errs[i])
		}
	}
	return nil
}

func (s *session) attempt(own *sqlstore.Ownership, exclusive bool, do func() error) error {
	if own.Fenced { // for good: an incarnation never comes back
		return cmp.Or(s.ended, store.ErrFenced)
	}
	if s.conn == nil || s.conn.IsClosed() {
		if err := s.connect(); err != nil {
			own.Fenced = errors.Is(err, store.ErrFenced)
			return err
		}
		own.Read = false
	}
	s.own, s.exclusive, s.sent, s.queue = own, exclusive, false, s.queue[:0]
	s.token++
	err := s.readOwnership()
	if err == nil {
		err = do()
	}
	if err == nil {
		err = s.commit()
	}
	if err != nil {
		s.rollback()
	}
	return err
}

// readOwnership reads what the host owns, unless it is known.
func (s *session) readOwnership() error {
	if s.own.Read && !s.exclusive {
		return nil
	}
	if err := s.flush(nil, nil); err != nil {
		return err
	}
	taken := map[store.OwnerKey]sqlstore.Taken{}
	err := s.flush(&queued{text: ownership, args: []any{s.host}}, func(r pgx.BatchResults) error {
		found, err := r.Query()
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var key, host string
			var epoch int64
			if err := found.Scan(&s.own.Epoch, &s.own.Member, &key, &host, &epoch); err != nil {
				return err
			}
			if key != "" {
				taken[store.OwnerKey(decodeText(key))] = sqlstore.Taken{Host: decodeText(host), Epoch: epoch}
			}
		}
		return found.Err()
	})
	if err != nil {
		return err
	}
	s.own.Read, s.own.Taken = true, taken
	return nil
}

const (
	// ownership has a row without a key if no key has moved.
	ownership = "SELECT h.epoch, h.expires > 0, coalesce(o.key, ''), coalesce(o.host, ''), coalesce(o.epoch, 0) FROM hosts h LEFT JOIN owners o ON true WHERE h.id = $1"
	fence     = "SELECT fence($1, $2, $3, $4)" // see the migrations
	// exclude waits for the transactions of all hosts, in an order in which no two of them wait for each other.
	exclude = "SELECT count(*) FROM (SELECT id FROM hosts ORDER BY id FOR NO KEY UPDATE) AS h"
	// moved makes all hosts read what they own before their next commit.
	moved = "UPDATE hosts SET moves = moves + 1"
	// A pooled connection may be another one in the next transaction, so that it has no settings of its own.
	settings = "SELECT set_config('lock_timeout', '" + lockTimeout + "', true), set_config('idle_in_transaction_session_timeout', '" + idleTimeout + "', true)"
)

// flush sends what is queued, and last if it is not nil. It calls read for the result of last.
func (s *session) flush(last *queued, read func(pgx.BatchResults) error) error {
	if s.conn == nil {
		return errNoConnection
	}
	batch := &pgx.Batch{}
	beginning := !s.sent
	if beginning {
		batch.Queue("BEGIN")
		if s.db.pooled {
			batch.Queue(settings)
		}
		if s.exclusive {
			batch.Queue(exclude)
		}
		known := s.moves
		if !s.own.Read || s.exclusive {
			known = -1
		}
		batch.Queue(fence, s.host, s.own.Incarnation, known, s.token)
		s.sent = true
	}
	for _, q := range s.queue {
		batch.Queue(q.text, q.args...)
	}
	if last != nil {
		batch.Queue(last.text, last.args...)
	}
	if batch.Len() == 0 {
		return nil
	}
	results := s.conn.SendBatch(context.Background(), batch)
	err := s.results(results, beginning)
	if err == nil && last != nil {
		err = read(results)
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	s.queue = s.queue[:0]
	return err
}

// results reads the results of what comes before the last statement of a batch.
func (s *session) results(r pgx.BatchResults, beginning bool) error {
	if beginning {
		before := 1 // BEGIN
		if s.db.pooled {
			before++
		}
		if s.exclusive {
			before++
		}
		for range before {
			if _, err := r.Exec(); err != nil {
				return err
			}
		}
		switch err := r.QueryRow().Scan(&s.moves); {
		case codeOf(err) == codeFenced:
			s.own.Fenced = true
			return store.ErrFenced
		case codeOf(err) == codeMoved:
			return errMoved
		case err != nil:
			return err
		}
	}
	for range s.queue {
		if _, err := r.Exec(); err != nil {
			return s.blame(err)
		}
	}
	return nil
}

// blame makes the error of a queued statement that of a write, unless the whole transaction is to be repeated.
func (s *session) blame(err error) error {
	if codeOf(err) == "" || lost(err) || repeatable(err) {
		return err
	}
	return sqlstore.OpError{Err: err}
}

// commit ends the transaction. It sends nothing if nothing was asked for.
func (s *session) commit() error {
	if !s.sent && len(s.queue) == 0 {
		return nil
	}
	if s.exclusive {
		s.queue = append(s.queue, queued{text: moved})
	}
	var tag pgconn.CommandTag
	err := s.flush(&queued{text: "COMMIT"}, func(r pgx.BatchResults) (err error) {
		tag, err = r.Exec()
		return s.blame(err) // of a deferred trigger, for example
	})
	switch {
	case s.conn.IsClosed():
		return s.find(err)
	case err == nil && tag.String() != "COMMIT":
		return fmt.Errorf("commit: the server answered %q", tag)
	case err == nil:
		s.sent, s.acknowledged = false, s.token
	}
	return err
}

// find finds out whether a transaction whose COMMIT was sent, and not answered, has happened. The row of the host is locked by it as long
// as it is under way.
func (s *session) find(cause error) error {
	late := time.Now().Add(s.db.patience)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		var incarnation string
		var token int64
		err := s.connect()
		if err == nil {
			err = s.conn.QueryRow(context.Background(), "SELECT incarnation, commits FROM hosts WHERE id = $1 FOR NO KEY UPDATE", s.host).Scan(&incarnation, &token)
		}
		switch {
		case err == nil && token == s.token:
			s.sent, s.acknowledged = false, s.token
			s.own.Read = false
			return nil
		case err == nil && incarnation == s.own.Incarnation:
			return fmt.Errorf("%w: it broke before the commit: %w", errNoConnection, cause) // to be repeated
		case err == nil || errors.Is(err, store.ErrFenced):
			s.own.Fenced = true
			return fmt.Errorf("it is not known whether the write was committed before %w", cmp.Or(s.ended, store.ErrFenced))
		case !lost(err) && !repeatable(err) || time.Now().After(late):
			return fmt.Errorf("it is not known whether the write was committed: the connection broke (%v), and the server cannot be asked: %v", cause, err)
		}
		time.Sleep(pause)
	}
}

// rollback ends the transaction. A connection on which that fails is closed, which rolls back, too.
func (s *session) rollback() {
	if s.conn == nil || s.conn.IsClosed() || !s.sent {
		return
	}
	s.sent = false
	if _, err := s.conn.Exec(context.Background(), "ROLLBACK"); err != nil {
		s.drop()
	}
}

// Exec implements sqlstore.Session.
func (s *session) Exec(query string, args ...any) error {
	q, err := bound(query, args)
	if err == nil {
		s.queue = append(s.queue, q)
	}
	return err
}

func bound(query string, args []any) (queued, error) {
	t := translate(query)
	values, err := t.bind(args)
	return queued{t.text, values}, err
}

// Changed implements sqlstore.Session.
func (s *session) Changed(query string, args ...any) (n int64, err error) {
	q, err := bound(query, args)
	if err != nil {
		return 0, err
	}
	err = s.flush(&q, func(r pgx.BatchResults) error {
		tag, err := r.Exec()
		n = tag.RowsAffected()
		return err
	})
	return n, err
}

// Insert implements sqlstore.Session.
func (s *session) Insert(query string, args ...any) (id int64, err error) {
	err = s.Row(query+" RETURNING id", args, &id)
	return id, err
}

// Row implements sqlstore.Session.
func (s *session) Row(query string, args []any, dest ...any) error {
	q, err := bound(query, args)
	if err != nil {
		return err
	}
	return s.flush(&q, func(r pgx.BatchResults) error { return row{r.QueryRow()}.Scan(dest...) })
}

// Query implements sqlstore.Session.
func (s *session) Query(query string, args ...any) (sqlstore.Rows, error) {
	q, err := bound(query, args)
	if err != nil {
		return nil, err
	}
	if err := s.flush(nil, nil); err != nil {
		return nil, err
	}
	found, err := s.conn.Query(context.Background(), q.text, q.args...)
	return rows{found}, err
}

// Lock implements sqlstore.Session.
func (s *session) Lock(name string) error {
	return s.Exec("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", "flynn "+name)
}

// Dialect implements sqlstore.Session.
func (s *session) Dialect() sqlstore.Dialect { return sqlstore.Postgres }

// Close implements sqlstore.Session.
func (s *session) Close() error {
	s.drop()
	return nil
}

// connect opens the connection again.
func (s *session) connect() error {
	s.drop()
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	conn, err := s.db.connect(ctx)
	if err != nil {
		return err
	}
	s.conn = conn
	if !s.alone {
		err = s.follow(ctx)
	}
	if err == nil && s.locks && !s.db.pooled {
		err = s.lock(ctx)
	}
	if err != nil {
		s.drop()
	}
	return err
}

// enter makes the session that of a new incarnation of its host, which fences out the previous one. A host that has the database alone
// fences out all others, and takes over what they had.
func (s *session) enter(ctx context.Context) (sqlstore.Ownership, error) {
	own := sqlstore.NewIncarnation(s.host)
	s.incarnation = own.Incarnation
	tx, err := s.conn.Begin(ctx)
	if err != nil {
		return own, err
	}
	defer tx.Rollback(ctx) // fails after the commit
	if s.alone {
		if err := takeAll(ctx, tx); err != nil {
			return own, err
		}
	}
	if _, err := tx.Exec(ctx, settle, s.timeline); err != nil {
		return own, err
	}
	_, err = tx.Exec(ctx, `INSERT INTO hosts (id, incarnation, epoch, begins) SELECT $1, $2, 1, settles FROM control
		ON CONFLICT (id) DO UPDATE SET incarnation = excluded.incarnation, epoch = hosts.epoch + 1, begins = GREATEST(hosts.expires, excluded.begins), since = 0`,
		s.host, s.incarnation)
	if err == nil {
		err = tx.Commit(ctx)
	}
	return own, err
}

func takeAll(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, exclude); err != nil {
		return err
	}
	if err := noneAlive(ctx, tx); err != nil {
		return err
	}
	for _, query := range sqlstore.TakeAll {
		if _, err := tx.Exec(ctx, query); err != nil {
			return err
		}
	}
	return nil
}

// drop closes the connection.
func (s *session) drop() {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.conn.Close(ctx)
	s.conn = nil
}
