package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Triggers record the changes of tables, see the migration that makes the table changes, and in SQLite atend.go those of the tables that
// are written most.

// NoteChanges implements store.Journal.
func (s *Store) NoteChanges(ctx context.Context, list []store.Change) error {
	err := s.writer.write(ctx, func(w *writer) error {
		for _, c := range list {
			if err := w.noteChange(c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("note changes: %w", err)
	}
	return nil
}

// noteChange records a change of which others may know whose it is.
func (w *writer) noteChange(c store.Change) error {
	var of message.SenderKey
	if w.session.Dialect() == Postgres { // its triggers call the function, too
		return w.exec("SELECT note_foreign_change(?, ?, ?, ?)", c.Kind, c.ID, c.Of, nanos(c.At))
	}
	err := w.row("SELECT of FROM changes WHERE kind = ? AND id = ?", []any{c.Kind, c.ID}, &of)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	c.Of = cmp.Or(c.Of, of)
	return w.putChanges([]store.Change{c})
}

// Changes implements store.Journal.
func (s *Store) Changes(ctx context.Context, after int64, limit int) ([]store.Change, store.Kept, error) {
	found, err := list(ctx, s.read, scanChange, "SELECT seq, kind, id, of, at FROM changes WHERE seq > ? ORDER BY seq LIMIT ?", after, limit)
	if err != nil {
		return nil, store.Kept{}, fmt.Errorf("list changes: %w", err)
	}
	// Read second, so that it tells of changes that were forgotten before the list was read.
	kept, err := one(ctx, s.read, func(scan func(...any) error) (k store.Kept, err error) {
		err = scan(&k.Epoch, &k.UpTo, &k.Last)
		return k, err
	}, map[Dialect]string{
		SQLite:   "SELECT epoch, upto, (SELECT seq FROM sqlite_sequence WHERE name = 'changes') FROM changes_kept",
		Postgres: "SELECT epoch, upto, last FROM changes_kept", // sequences there are not in the order of commits
	}[s.read.Dialect()])
	if err != nil {
		return nil, kept, fmt.Errorf("list changes: %w", err)
	}
	return found, kept, nil
}

func scanChange(scan func(...any) error) (store.Change, error) {
	var c store.Change
	var at int64
	err := scan(&c.Seq, &c.Kind, &c.ID, &c.Of, &at)
	c.At = instant(at)
	return c, err
}

// PruneChanges implements store.Journal.
func (s *Store) PruneChanges(ctx context.Context, before time.Time, most int) error {
	err := s.writer.write(ctx, func(w *writer) error {
		var upTo int64
		err := w.row(`SELECT coalesce(max(seq), 0) FROM (SELECT max(seq) AS seq FROM changes WHERE at < ? UNION ALL
			SELECT seq FROM (SELECT seq FROM changes ORDER BY seq DESC LIMIT 1 OFFSET ?) AS kept) AS gone`, []any{nanos(before), most}, &upTo)
		if err != nil || upTo == 0 {
			return err
		}
		if err := w.exec("DELETE FROM changes WHERE seq <= ?", upTo); err != nil {
			return err
		}
		return w.exec("UPDATE changes_kept SET upto = ?1 WHERE upto < ?1", upTo)
	})
	if err != nil {
		return fmt.Errorf("prune changes: %w", err)
	}
	return nil
}

// Committed implements store.Journal.
func (s *Store) Committed() <-chan struct{} { return s.writer.committed.next() }

// bell wakes all who wait for it.
type bell struct {
	mu      sync.Mutex
	waiting chan struct{} // nil if nobody waits
}

func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = make(chan struct{})
	}
	return b.waiting
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting != nil {
		close(b.waiting)
		b.waiting = nil
	}
}
