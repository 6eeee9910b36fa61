package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// session is the one connection that writes.
type session struct {
	db      *sql.DB
	conn    *sql.Conn
	stmts   map[string]*sql.Stmt              // the prepared statements of conn by text, for queries
	execs   map[string]driver.StmtExecContext // and for the rest
	binding []driver.NamedValue               // the arguments of a statement that runs, reused by the next

	version int64 // data_version when the ownership was read
}

var _ sqlstore.Session = (*session)(nil)

// newSession opens the writing connection. A database that is not fresh is checked for damage first, on the same connection, because
// another one would read the schema again.
func newSession(ctx context.Context, path string, fresh bool) (*session, error) {
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
	return &session{db: db, conn: conn, stmts: map[string]*sql.Stmt{}, execs: map[string]driver.StmtExecContext{}}, nil
}

// enter makes the session that of a new incarnation of a host, which fences out the previous one. A host that has the store alone takes
// over what hosts that shared it have left, in a database from which it was copied.
//
// The commit is not flushed: only a crash of the machine can undo it, which the previous incarnation does not survive, and the first
// flushed commit includes it.
func (s *session) enter(host string, alone bool) (sqlstore.Ownership, error) {
	own := sqlstore.NewIncarnation(host)
	err := s.Exec("PRAGMA synchronous = NORMAL")
	if alone {
		for _, query := range sqlstore.TakeAll {
			if err == nil {
				err = s.Exec(query)
			}
		}
	}
	if err == nil {
		err = s.Exec(`INSERT INTO hosts (id, incarnation, epoch) VALUES (?, ?, 1)
			ON CONFLICT (id) DO UPDATE SET incarnation = excluded.incarnation, epoch = epoch + 1, begins = expires, since = 0`, host, own.Incarnation)
	}
	return own, errors.Join(err, s.Exec("PRAGMA synchronous = FULL"))
}

// Transaction implements sqlstore.Session. Every transaction excludes all others.
func (s *session) Transaction(own *sqlstore.Ownership, _ bool, do func() error) error {
	err := s.Exec("BEGIN IMMEDIATE")
	if err == nil {
		err = s.confirm(own)
	}
	if err == nil {
		err = do()
	}
	if err == nil {
		err = s.Exec("COMMIT")
	}
	if err != nil {
		s.Exec("ROLLBACK") // fails if BEGIN did
	}
	return err
}

// Each implements sqlstore.Session. Each write has a savepoint, which copies every page that it touches.
func (s *session) Each(own *sqlstore.Ownership, exclusive bool, n int, begin func(), do func(int) error, end func() error, errs []error) error {
	return s.Transaction(own, exclusive, func() error {
		begin()
		for i := range n {
			if err := s.Exec("SAVEPOINT op"); err != nil {
				return err
			}
			if errs[i] = do(i); errs[i] != nil {
				if err := s.Exec("ROLLBACK TO op"); err != nil {
					return err
				}
			}
			if err := s.Exec("RELEASE op"); err != nil {
				return err
			}
		}
		return end()
	})
}

// confirm updates the ownership. It is called inside each transaction, which excludes other writers, before anything is written. What
// was read stays valid until another connection commits: SQLite counts those commits in data_version. So the check of a commit costs one
// pragma and no read.
func (s *session) confirm(own *sqlstore.Ownership) error {
	var version int64
	if err := s.Row("PRAGMA data_version", nil, &version); err != nil {
		return err
	}
	if own.Read && version == s.version {
		return nil
	}
	var incarnation string
	err := s.Row("SELECT incarnation, epoch, expires > 0 FROM hosts WHERE id = ?", []any{own.Host}, &incarnation, &own.Epoch, &own.Member)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	rows, err := s.Query("SELECT key, host, epoch FROM owners")
	if err != nil {
		return err
	}
	defer rows.Close()
	taken := map[store.OwnerKey]sqlstore.Taken{}
	for rows.Next() {
		var key store.OwnerKey
		var t sqlstore.Taken
		if err := rows.Scan(&key, &t.Host, &t.Epoch); err != nil {
			return err
		}
		taken[key] = t
	}
	own.Read, own.Taken, own.Fenced, s.version = true, taken, incarnation != own.Incarnation, version
	return rows.Err()
}

// Lock implements sqlstore.Session.
func (s *session) Lock(string) error { return nil }

// Dialect implements sqlstore.Session.
func (s *session) Dialect() sqlstore.Dialect { return sqlstore.SQLite }

// stmt returns the prepared statement for a fixed query text.
func (s *session) stmt(query string) (*sql.Stmt, error) {
	if p, ok := s.stmts[query]; ok {
		return p, nil
	}
	p, err := s.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", query, err)
	}
	s.stmts[query] = p
	return p, nil
}

// result runs a statement without database/sql, which would allocate for each as much as the driver.
func (s *session) result(query string, args ...any) (r driver.Result, err error) {
	s.binding = s.binding[:0]
	for i, arg := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, fmt.Errorf("argument %d of %q: %w", i+1, query, err)
		}
		s.binding = append(s.binding, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	err = s.conn.Raw(func(conn any) error {
		p, ok := s.execs[query]
		if !ok {
			prepared, err := conn.(driver.ConnPrepareContext).PrepareContext(context.Background(), query)
			if err != nil {
				return fmt.Errorf("prepare %q: %w", query, err)
			}
			p = prepared.(driver.StmtExecContext)
			s.execs[query] = p
		}
		r, err = p.ExecContext(context.Background(), s.binding)
		return err
	})
	clear(s.binding)
	return r, err
}

// Exec implements sqlstore.Session.
func (s *session) Exec(query string, args ...any) error {
	_, err := s.result(query, args...)
	return err
}

// Changed implements sqlstore.Session.
func (s *session) Changed(query string, args ...any) (int64, error) {
	r, err := s.result(query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Insert implements sqlstore.Session. RETURNING costs more than the insertion: SQLite keeps the rows until all are inserted.
func (s *session) Insert(query string, args ...any) (int64, error) {
	r, err := s.result(query, args...)
	if err != nil {
		return 0, err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return 0, cmp.Or(err, sql.ErrNoRows)
	}
	return r.LastInsertId()
}

// Row implements sqlstore.Session.
func (s *session) Row(query string, args []any, dest ...any) error {
	p, err := s.stmt(query)
	if err != nil {
		return err
	}
	return p.QueryRowContext(context.Background(), args...).Scan(dest...)
}

// Query implements sqlstore.Session.
func (s *session) Query(query string, args ...any) (sqlstore.Rows, error) {
	return s.conn.QueryContext(context.Background(), query, args...)
}

// Close implements sqlstore.Session.
func (s *session) Close() error {
	var errs []error
	for _, p := range s.stmts {
		errs = append(errs, p.Close())
	}
	errs = append(errs, s.conn.Raw(func(any) (err error) {
		for _, p := range s.execs {
			err = errors.Join(err, p.(driver.Stmt).Close())
		}
		return err
	}))
	return errors.Join(append(errs, s.conn.Close(), s.db.Close())...)
}
