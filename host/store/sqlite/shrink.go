package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// Space freed by deletions is used again by later writes. If there is much of it, Shrink returns it to the file system.
const (
	shrinkFrom  = 1024 // free pages from which shrinking is worthwhile
	shrinkShare = 4    // and their share of the file: one in so many
	shrinkStep  = 256  // pages freed by one write, 1 MiB
	shrinkPause = 20 * time.Millisecond
	// convertMost bounds the used pages of a store that is rewritten when it is opened, because an older Flynn made it unable to shrink:
	// 64 MiB, about a second.
	convertMost = 16384
)

// pages returns the number of pages of a database, and how many of them are unused.
func pages(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (all, free int64, shrinks bool, err error) {
	var mode int
	err = db.QueryRowContext(ctx, "SELECT page_count, freelist_count, auto_vacuum FROM pragma_page_count, pragma_freelist_count, pragma_auto_vacuum").
		Scan(&all, &free, &mode)
	return all, free, mode == 2, err
}

func wastes(all, free int64) bool { return free >= shrinkFrom && free*shrinkShare >= all }

// Shrink implements store.Pruning.
func (s *Store) Shrink(ctx context.Context) (freed int64, err error) {
	all, free, shrinks, err := pages(ctx, s.read)
	if err != nil {
		return 0, fmt.Errorf("shrink the store: %w", err)
	}
	if !shrinks || !wastes(all, free) {
		return 0, nil
	}
	for before := all; free > all/20; {
		if err := s.Write(ctx, func(sqlstore.Session) error { return s.session.giveBack(shrinkStep) }); err != nil {
			return freed, fmt.Errorf("shrink the store: %w", err)
		}
		if all, free, _, err = pages(ctx, s.read); err != nil {
			return freed, fmt.Errorf("shrink the store: %w", err)
		}
		now := (before - all) * pageSize
		if now == freed {
			return freed, nil // no more pages can be freed
		}
		freed = now
		select {
		case <-time.After(shrinkPause):
		case <-ctx.Done():
			return freed, ctx.Err()
		}
	}
	return freed, nil
}

const pageSize = 4096

// giveBack frees pages at the end of the file. The statement frees one with each step.
func (s *session) giveBack(n int) error {
	rows, err := s.conn.QueryContext(context.Background(), fmt.Sprintf("PRAGMA incremental_vacuum(%d)", n))
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rows.Close()
}

// convert makes the file of an older Flynn able to shrink, if it is small. If that fails, the file stays as it is.
func convert(ctx context.Context, conn *sql.Conn) {
	all, free, shrinks, err := pages(ctx, conn)
	if err != nil || shrinks || all-free > convertMost {
		return
	}
	if _, err := conn.ExecContext(ctx, "PRAGMA auto_vacuum = 2"); err == nil {
		conn.ExecContext(ctx, "VACUUM")
	}
}
