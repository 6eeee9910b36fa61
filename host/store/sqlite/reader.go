package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/policy/journal"
)

// replayVersion is the first schema version with the data for replays, and with the tables of shadow policies.
const replayVersion = 3

// Reader reads the store of a host that may be running. It takes no lock, changes no schema and writes nothing.
type Reader struct {
	db      *sql.DB // nil if no host has run yet
	version int
}

// OpenReader opens the database in dir for reading. A folder in which no host has run reads as empty. The caller must close the reader.
func OpenReader(ctx context.Context, dir string) (*Reader, error) {
	if _, err := os.Stat(filepath.Join(dir, "flynn.db")); errors.Is(err, fs.ErrNotExist) {
		return &Reader{}, nil
	}
	db, err := openToRead(dir)
	if err != nil {
		return nil, err
	}
	s, err := stampOf(ctx, db)
	if err == nil {
		err = s.newer()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store in %s: %w", dir, err), db.Close())
	}
	return &Reader{db, s.Schema}, nil
}

// openToRead opens the database in dir, which exists.
func openToRead(dir string) (*sql.DB, error) {
	// Not mode=ro: a reader of a database with a write-ahead log takes part in its shared memory.
	db, err := sql.Open("sqlite", "file:"+escaped(filepath.Join(dir, "flynn.db"))+
		"?mode=rw&_pragma=busy_timeout(5000)&_pragma=query_only(1)&_pragma=cache_size(-16384)")
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", dir, err)
	}
	return db, nil
}

// Close ends the reader.
func (r *Reader) Close() error {
	if r.db == nil {
		return nil
	}
	return r.db.Close()
}

// EachDecision implements the method of journal.Decisions for reading.
func (r *Reader) EachDecision(ctx context.Context, f journal.DecisionFilter) iter.Seq2[journal.Decision, error] {
	if r.version == 0 {
		return func(func(journal.Decision, error) bool) {}
	}
	return eachDecision(ctx, r.db, f, r.version < replayVersion)
}

// SearchNotes implements the method of memory.Notes for reading.
func (r *Reader) SearchNotes(ctx context.Context, q memory.NoteQuery) ([]memory.Note, error) {
	if r.db == nil {
		return nil, nil
	}
	if r.version < versionWith("0010_memory.sql") {
		return nil, errors.New("the store was written by an older Flynn: start this one once to update it")
	}
	columns := mending
	if r.version < versionWith("0025_mended_notes.sql") {
		columns = unmended
	}
	return searchNotes(ctx, r.db, q, columns)
}

// ShadowCounts implements the method of journal.Shadows for reading.
func (r *Reader) ShadowCounts(ctx context.Context, f journal.ShadowFilter) ([]journal.ShadowCount, error) {
	if r.version < replayVersion {
		return nil, nil
	}
	return shadowCounts(ctx, r.db, f)
}

// ShadowDifferences implements the method of journal.Shadows for reading.
func (r *Reader) ShadowDifferences(ctx context.Context, f journal.ShadowFilter) iter.Seq2[journal.ShadowDifference, error] {
	if r.version < replayVersion {
		return func(func(journal.ShadowDifference, error) bool) {}
	}
	return shadowDifferences(ctx, r.db, f)
}

// Health is what Check finds.
type Health struct {
	Latest time.Time // start of the latest turn; zero if there is none
}

// Check looks at the database in a folder. Its error says that the database is missing, damaged, of a newer Flynn (ErrNewer) or cannot be read. It takes no lock: a
// host may be running. The end of ctx ends the search for damage.
func Check(ctx context.Context, dir string) (h Health, err error) {
	path := filepath.Join(dir, "flynn.db")
	if err := lost(dir, path); err != nil {
		return h, err
	}
	r, err := OpenReader(ctx, dir)
	if err != nil {
		return h, advise(path, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if r.db == nil {
		return h, nil
	}
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return h, advise(path, err)
	}
	defer conn.Close()
	if err := check(ctx, conn, path); err != nil || r.version == 0 {
		return h, advise(path, err)
	}
	var last sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT max(last) FROM sessions").Scan(&last); err != nil && ctx.Err() == nil {
		return h, advise(path, err)
	}
	h.Latest = instant(last.Int64)
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
