package sqlstore

import (
	"context"
	"errors"
	"iter"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/policy/journal"
)

// The first schema versions with the data for replays and the tables of shadow policies, with notes of persons, with mended
// notes, and with records of sandboxes.
const (
	replayVersion    = 3
	notesVersion     = 10
	mendedVersion    = 25
	sandboxesVersion = 29
)

// Reader reads the store of a host that may be running. It takes no lock, changes no schema and writes nothing.
type Reader struct {
	db      Reads // nil if no host has run yet
	version int
	close   func() error
}

// NewReader returns a reader. The version is that of the schema, counted in migrations of SQLite; db is nil if no host has run yet.
func NewReader(db Reads, version int, close func() error) *Reader { return &Reader{db, version, close} }

// Close ends the reader.
func (r *Reader) Close() error { return r.close() }

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
	if r.version < notesVersion {
		return nil, errors.New("the store was written by an older Flynn: start this one once to update it")
	}
	columns := mending
	if r.version < mendedVersion {
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
