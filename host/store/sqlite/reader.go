package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// OpenReader opens the database in dir for reading. A folder in which no host has run reads as empty. The caller must close the reader.
func OpenReader(ctx context.Context, dir string) (*sqlstore.Reader, error) {
	db, s, err := openStamped(ctx, dir)
	if err != nil {
		return nil, err
	}
	if db == nil {
		return sqlstore.NewReader(nil, 0, func() error { return nil }), nil
	}
	return sqlstore.NewReader(readsOf(db), s.Schema, db.Close), nil
}

// openStamped opens the database in dir for reading unless a newer Flynn has written it; db is nil if there is none.
func openStamped(ctx context.Context, dir string) (db *sql.DB, s sqlstore.Stamp, err error) {
	if _, err := os.Stat(filepath.Join(dir, "flynn.db")); errors.Is(err, fs.ErrNotExist) {
		return nil, s, nil
	}
	if db, err = openToRead(dir); err != nil {
		return nil, s, err
	}
	if s, err = stampOf(ctx, db); err == nil {
		err = newer(s)
	}
	if err != nil {
		return nil, s, errors.Join(fmt.Errorf("open store in %s: %w", dir, err), db.Close())
	}
	return db, s, nil
}

// openToRead opens the database in dir, which exists.
func openToRead(dir string) (*sql.DB, error) {
	db, err := openFile(filepath.Join(dir, "flynn.db"))
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", dir, err)
	}
	return db, nil
}

// openFile opens a database for reading, which exists.
func openFile(path string) (*sql.DB, error) {
	// Not mode=ro: a reader of a database with a write-ahead log takes part in its shared memory.
	return sql.Open("sqlite", "file:"+escaped(path)+"?mode=rw&_pragma=busy_timeout(5000)&_pragma=query_only(1)&_pragma=cache_size(-16384)")
}

// Health is what Check finds.
type Health struct {
	Latest time.Time // start of the latest turn; zero if there is none
}

// Check looks at the database in a folder. Its error says that the database is missing, damaged, of a newer Flynn (sqlstore.ErrNewer) or cannot be read. It takes no lock: a
// host may be running. The end of ctx ends the search for damage.
func Check(ctx context.Context, dir string) (h Health, err error) {
	path := filepath.Join(dir, "flynn.db")
	if err := lost(dir, path); err != nil {
		return h, err
	}
	db, s, err := openStamped(ctx, dir)
	if err != nil {
		return h, advise(path, err)
	}
	if db == nil {
		return h, nil
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return h, advise(path, err)
	}
	defer conn.Close()
	if err := check(ctx, conn, path); err != nil || s.Schema == 0 {
		return h, advise(path, err)
	}
	var last sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT max(last) FROM sessions").Scan(&last); err != nil && ctx.Err() == nil {
		return h, advise(path, err)
	}
	if last.Int64 != 0 {
		h.Latest = time.Unix(0, last.Int64).UTC()
	}
	return h, nil
}

// lost is vanished for a folder that may not have been used yet.
func lost(dir, path string) error {
	lock, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return nil
	}
	defer lock.Close()
	return vanished(lock, path)
}
