// Package postgres keeps Flynn's durable state in a Postgres database, for several hosts together or for one.
//
// Start with Open. The statements are those of package sqlstore, which dialect.go translates; session.go has the transactions, and what
// happens to them when the connection breaks. The database is Flynn's own: it makes the tables in it. An address is a secret, and in no
// error.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// Store is the Postgres back end.
type Store struct {
	*sqlstore.Store
	db      *database
	session *session
	read    *pgxpool.Pool
	present *appearance // nil without a pooler
}

var _ store.Store = (*Store)(nil)

// Open opens the database for the only host that writes to it, and updates its schema. The host takes over what hosts that shared the
// database have left; while one of them lives, Open returns store.ErrLocked.
func Open(ctx context.Context, a Address) (*Store, error) {
	return open(ctx, a, &session{host: store.DefaultHost, alone: true, locks: true})
}

// Join opens the database as one of several hosts that share it, and updates its schema. Each host has a name. While another process has
// that name, or has the database alone, Join returns store.ErrLocked.
func Join(ctx context.Context, a Address, host string) (*Store, error) {
	return open(ctx, a, &session{host: host, locks: true})
}

func open(ctx context.Context, a Address, own *session) (_ *Store, err error) {
	db, err := newDatabase(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	own.db, own.token = db, time.Now().UnixNano()
	s := &Store{db: db, session: own}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", db.explain(err)), s.Close())
	}
	return s, nil
}

func (s *Store) start(ctx context.Context) error {
	if err := s.session.connect(); err != nil {
		return err
	}
	if err := migrate(ctx, s.session.conn); err != nil {
		return err
	}
	var err error
	if s.read, err = s.db.connections(ctx); err != nil {
		return err
	}
	if s.db.pooled && s.session.locks {
		if err := s.session.counted(ctx, s.read); err != nil {
			return err
		}
	}
	own, err := s.session.enter(ctx)
	if err != nil {
		return err
	}
	if s.db.pooled && s.session.locks {
		s.present = appear(s.read, own.Host, own.Incarnation)
	}
	s.Store = sqlstore.New(s.session, reads{s.read, s.read}, own)
	return nil
}

// Shared implements store.Owners.
func (s *Store) Shared() bool { return !s.session.alone }

// Shrink implements store.Pruning. The server does that by itself.
func (s *Store) Shrink(context.Context) (int64, error) { return 0, nil }

// Close waits for running writes.
func (s *Store) Close() error {
	var err error
	if s.Store != nil {
		err = s.Store.Close()
	} else {
		s.session.drop()
	}
	if s.present != nil {
		s.present.stop()
	}
	if s.read != nil {
		s.read.Close()
	}
	return err
}

// OpenReader opens the database for reading. A database without tables reads as empty. The caller must close the reader.
func OpenReader(ctx context.Context, a Address) (*sqlstore.Reader, error) {
	db, err := newDatabase(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	pool, err := db.connections(ctx)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", db.explain(err))
	}
	s, err := stampOf(ctx, pool)
	if err == nil {
		err = newer(s)
	}
	if err == nil && s.Schema != 0 && s.Schema < len(scripts()) {
		err = errors.New("it was written by an older Flynn: start this one once to update it")
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open store: %w", db.explain(err))
	}
	done := func() error { pool.Close(); return nil }
	if s.Schema == 0 {
		return sqlstore.NewReader(nil, 0, done), nil
	}
	return sqlstore.NewReader(reads{pool, pool}, math.MaxInt, done), nil
}

// ReadStamp reads the stamp of a database, also of one that this Flynn refuses.
func ReadStamp(ctx context.Context, a Address) (s sqlstore.Stamp, err error) {
	db, err := newDatabase(ctx, a)
	if err != nil {
		return s, fmt.Errorf("open store: %w", err)
	}
	conn, err := db.connect(ctx)
	if err != nil {
		return s, fmt.Errorf("open store: %w", db.explain(err))
	}
	defer conn.Close(ctx)
	if s, err = stampOf(ctx, conn); err != nil {
		return s, fmt.Errorf("open store: %w", db.explain(err))
	}
	return s, nil
}

// Check looks at a database, and returns when its latest turn started; the zero time if there is none.
func Check(ctx context.Context, a Address) (latest time.Time, err error) {
	db, err := newDatabase(ctx, a)
	if err != nil {
		return latest, fmt.Errorf("open store: %w", err)
	}
	conn, err := db.connect(ctx)
	if err != nil {
		return latest, fmt.Errorf("open store: %w", db.explain(err))
	}
	defer conn.Close(ctx)
	s, err := stampOf(ctx, conn)
	if err == nil {
		err = newer(s)
	}
	var last int64
	if err == nil && s.Schema != 0 {
		err = conn.QueryRow(ctx, "SELECT coalesce(max(last), 0) FROM sessions").Scan(&last)
	}
	if err != nil {
		return latest, fmt.Errorf("open store: %w", db.explain(err))
	}
	if last != 0 {
		latest = time.Unix(0, last).UTC()
	}
	return latest, nil
}

// Tables is a database whose host cannot run until Close.
type Tables struct {
	*pgx.Conn
	session *session
}

// OpenTables opens the tables of a database as they are, and keeps a host from starting on it; through a pooler, only one that runs is
// noticed. With create, the schema is made or updated; without, it must be the present one.
func OpenTables(ctx context.Context, a Address, create bool) (*Tables, error) {
	db, err := newDatabase(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	t := &Tables{session: &session{db: db, host: store.DefaultHost, alone: true, locks: true}}
	if err = t.session.connect(); err == nil {
		t.Conn = t.session.conn
		if create {
			err = migrate(ctx, t.Conn)
		}
		if err == nil {
			err = present(ctx, t.Conn)
		}
	}
	if err == nil && db.pooled {
		err = t.session.counted(ctx, t.Conn)
	}
	if err == nil {
		err = noneAlive(ctx, t.Conn)
	}
	if err != nil {
		t.session.drop()
		return nil, fmt.Errorf("open store: %w", db.explain(err))
	}
	return t, nil
}

// present returns an error unless the schema is the one of this Flynn.
func present(ctx context.Context, db querier) error {
	s, err := stampOf(ctx, db)
	if err == nil {
		err = strictlyNewer(s)
	}
	if err == nil && s.Schema < len(scripts()) {
		err = fmt.Errorf("it has schema version %d, and this flynn has %d: start this flynn with it once, which updates it", s.Schema, len(scripts()))
	}
	return err
}

// Close closes the database.
func (t *Tables) Close() error {
	t.session.drop()
	return nil
}

// EncodeText returns a text as a TEXT column has it, and DecodeText what it stands for.
func EncodeText(text string) string { return encodeText(text) }

// DecodeText undoes EncodeText.
func DecodeText(text string) string { return decodeText(text) }
