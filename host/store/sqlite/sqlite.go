// Package sqlite keeps Flynn's durable state in one SQLite file, in pure Go.
//
// Start with Open. The statements are those of package sqlstore; this package opens the file, checks it and brings its schema up to date.
// A write returns when its group is on stable storage (write-ahead log, synchronous=FULL). Reads run in parallel. One process holds the
// folder at a time; a second one is refused.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// Store is the SQLite back end.
type Store struct {
	*sqlstore.Store
	lock    *os.File
	shared  bool // by other hosts
	session *session
	read    *sql.DB
}

var _ store.Store = (*Store)(nil)

// Open opens or creates the database flynn.db in dir and updates its schema.
func Open(ctx context.Context, dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make store folder: %w", err)
	}
	lock, err := Lock(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{lock: lock}
	if err = s.open(ctx, filepath.Join(dir, "flynn.db"), store.DefaultHost); err == nil {
		_, err = lock.WriteAt([]byte(usedMark), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store in %s: %w", dir, advise(filepath.Join(dir, "flynn.db"), err)), s.Close())
	}
	return s, nil
}

// Join opens the database of a folder beside other hosts of this process. The folder is not locked: Join is for tests of hosts that share
// a store.
func Join(ctx context.Context, dir, host string) (*Store, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	s := &Store{lock: lock, shared: true}
	if err := s.open(ctx, filepath.Join(dir, "flynn.db"), host); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Shared implements store.Owners.
func (s *Store) Shared() bool { return s.shared }

func (s *Store) open(ctx context.Context, path, host string) error {
	if err := vanished(s.lock, path); err != nil {
		return err
	}
	// SQLite would make the file readable for all, and gives its journals the mode of the file.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if s.session, err = newSession(ctx, path, info.Size() == 0); err != nil {
		return err
	}
	if s.read, err = sql.Open("sqlite", dsn(path, "&_pragma=query_only(1)")); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers) // a new connection has to read the schema again
	s.read.SetConnMaxIdleTime(time.Minute)
	if err := s.read.PingContext(ctx); err != nil {
		return err
	}
	own, err := s.session.enter(host, !s.shared)
	if err != nil {
		return fmt.Errorf("take the store over: %w", err)
	}
	s.Store = sqlstore.New(s.session, readsOf(s.read), own)
	return nil
}

// readers is the number of connections for parallel reads.
const readers = 4

// dsn returns the data source name with the settings on which durability depends.
func dsn(path, more string) string { return dsnOf(path, "", more) }

// newDSN returns the data source name for a new database, whose file can shrink.
func newDSN(path string) string { return dsnOf(path, "&_pragma=auto_vacuum(2)", "") }

func dsnOf(path, first, more string) string {
	return "file:" + escaped(path) +
		"?_pragma=busy_timeout(5000)" + first + "&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
		"&_pragma=fullfsync(1)&_pragma=checkpoint_fullfsync(1)" + // macOS: fsync alone leaves data in the disk's cache; elsewhere without effect
		"&_pragma=foreign_keys(1)&_pragma=temp_store(MEMORY)&_pragma=wal_autocheckpoint(4000)&_pragma=cache_size(-4096)" + more
}

// escaped returns a path for a SQLite URI.
func escaped(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// Close waits for running writes and unlocks the folder.
func (s *Store) Close() error {
	var errs []error
	switch {
	case s.Store != nil:
		errs = append(errs, s.Store.Close())
	case s.session != nil:
		errs = append(errs, s.session.Close())
	}
	if s.read != nil {
		errs = append(errs, s.read.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}
