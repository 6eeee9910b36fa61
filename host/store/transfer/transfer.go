// Package transfer copies a store between SQLite and Postgres.
//
// Start with Copy. It copies in one transaction, so that an interrupted copy leaves an empty store and can be started again, and compares
// both stores afterwards. The journal of changes is not copied: pages that are open load their lists again. Media, workspaces and the state
// of plugins are no part of the store, and stay in the folder.
package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/flynnhost/flynn/host/store/database"
)

// Table says what was copied of a table.
type Table struct {
	Name string `json:"name"`
	Rows int64  `json:"rows"`
	// Digest is the sum of the digests of the rows, so that it does not depend on their order.
	Digest string `json:"digest"`
}

// tables are those that are copied. A table comes after those that its rows refer to.
var tables = []string{
	"hosts", "owners", "inbox", "sessions", "turns", "steps", "outbox", "approvals", "decision_texts", "decisions", "egress", "shadow_differences",
	"shadow_counts", "policy_modules", "policy_history", "plugin_values", "plugin_values_usage", "drafts", "pairings", "pairing_guesses", "places",
	"halt", "usage", "notes", "extractions", "summaries", "results", "schedules", "schedule_runs", "grants", "elevations", "audit", "leftovers",
	"marks", "signin_codes", "signins", "said", "titles", "keyed",
}

// left are the tables that are not copied.
var left = []string{"changes", "changes_kept", "written_by", "signals", "control", "takeovers", "sandboxes", "workspaces", "parts", "blobs", "blob_chunks", "wanted_files", "revisions", "votes"}

// hosts has a row from the start.
const hosts = "hosts"

// Values of a row are nil, int64, float64, string or []byte.
type side interface {
	// tables returns the names of all tables with rows of their own.
	tables(ctx context.Context) ([]string, error)
	// columns returns the names of the columns that both databases have.
	columns(ctx context.Context, table string) ([]string, error)
	each(ctx context.Context, table string, columns []string, row func([]any) error) error
	// sequence returns the last number that was given to a row, 0 if rows have none.
	sequence(ctx context.Context, table string) (int64, error)
	close() error
}

// target is a side that is written to in one transaction.
type target interface {
	side
	begin(ctx context.Context) error
	// fill writes the rows that next returns until it returns nil.
	fill(ctx context.Context, table string, columns []string, next func() ([]any, error)) error
	setSequence(ctx context.Context, table string, last int64) error
	commit(ctx context.Context) error
}

// Copy copies a store into an empty one. It fails while a host uses either. progress is called after each table.
func Copy(ctx context.Context, from, to database.Location, progress func(Table)) (err error) {
	if from.Postgres() == to.Postgres() {
		return errors.New("copy the store: one of the two must be a folder, and the other a variable with the address of a database")
	}
	source, err := open(ctx, from, false)
	if err != nil {
		return fmt.Errorf("copy the store: %w", err)
	}
	defer func() { err = errors.Join(err, source.close()) }()
	dest, err := open(ctx, to, true)
	if err != nil {
		return fmt.Errorf("copy the store: %w", err)
	}
	defer func() { err = errors.Join(err, dest.close()) }()
	if err := empty(ctx, dest); err != nil {
		return fmt.Errorf("copy the store to %s: %w", to, err)
	}
	if err := dest.begin(ctx); err != nil {
		return fmt.Errorf("copy the store: %w", err)
	}
	for _, name := range tables {
		t, err := one(ctx, source, dest, name)
		if err != nil {
			return fmt.Errorf("copy table %s: %w", name, err)
		}
		progress(t)
	}
	if err := dest.commit(ctx); err != nil {
		return fmt.Errorf("copy the store: %w", err)
	}
	return nil
}

func open(ctx context.Context, at database.Location, create bool) (target, error) {
	if at.Postgres() {
		return openPostgres(ctx, at, create)
	}
	return openSQLite(ctx, at, create)
}

// empty returns an error unless all tables are empty.
func empty(ctx context.Context, dest side) error {
	for _, name := range tables {
		if name == hosts {
			continue
		}
		columns, err := dest.columns(ctx, name)
		if err != nil {
			return err
		}
		err = dest.each(ctx, name, columns, func([]any) error {
			return fmt.Errorf("it is not empty: table %s has rows; name an empty database or folder", name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// one copies a table, and reads it again to compare.
func one(ctx context.Context, source side, dest target, name string) (t Table, err error) {
	columns, err := source.columns(ctx, name)
	if err != nil {
		return t, err
	}
	there, err := dest.columns(ctx, name)
	if err != nil {
		return t, err
	}
	if !slices.Equal(columns, there) {
		return t, fmt.Errorf("its columns are %v in one store and %v in the other", columns, there)
	}
	var was, is sum
	rows, stop := pull(ctx, source, name, columns)
	defer stop()
	err = dest.fill(ctx, name, columns, func() ([]any, error) {
		row, err := rows()
		if row != nil {
			was.add(row)
		}
		return row, err
	})
	if err != nil {
		return t, err
	}
	last, err := source.sequence(ctx, name)
	if err == nil && last > 0 {
		err = dest.setSequence(ctx, name, last)
	}
	if err == nil {
		err = dest.each(ctx, name, columns, func(row []any) error {
			is.add(row)
			return nil
		})
	}
	if err == nil && was != is {
		err = fmt.Errorf("%d rows were read and %d are there, with digests %x and %x: nothing was kept", was.rows, is.rows, was.digest, is.digest)
	}
	return Table{Name: name, Rows: was.rows, Digest: fmt.Sprintf("%x", was.digest)}, err
}

// pull returns the rows of a table one by one, and nil after the last.
func pull(ctx context.Context, source side, name string, columns []string) (next func() ([]any, error), stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	rows, ended := make(chan []any, 256), make(chan error, 1)
	go func() { // ends when all rows are read, or with stop
		defer close(rows)
		ended <- source.each(ctx, name, columns, func(row []any) error {
			select {
			case rows <- row:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	next = func() ([]any, error) {
		if row, ok := <-rows; ok {
			return row, nil
		}
		err := <-ended
		ended <- err
		return nil, err
	}
	return next, func() {
		cancel()
		for range rows { // until the goroutine has ended
		}
	}
}

// sum is the number of rows and the sum of their digests.
type sum struct {
	rows   int64
	digest [sha256.Size]byte
}

func (s *sum) add(row []any) {
	s.rows++
	h := sha256.New()
	number := func(kind byte, n uint64) {
		h.Write(binary.BigEndian.AppendUint64([]byte{kind}, n))
	}
	for _, v := range row {
		switch v := v.(type) {
		case nil:
			number('n', 0)
		case int64:
			number('i', uint64(v))
		case float64:
			number('f', math.Float64bits(v))
		case string:
			number('s', uint64(len(v)))
			h.Write([]byte(v))
		case []byte:
			number('b', uint64(len(v)))
			h.Write(v)
		default:
			panic(fmt.Sprintf("a column has a %T", v)) // none of the schema does
		}
	}
	carry := 0
	for i, b := range slices.Backward(h.Sum(nil)) {
		carry += int(s.digest[i]) + int(b)
		s.digest[i] = byte(carry)
		carry >>= 8
	}
}
