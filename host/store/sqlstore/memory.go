package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/store"
)

const (
	noteColumns = "notes.id, notes.agent, notes.person, notes.key, notes.text, notes.sender, notes.turn, notes.labels, notes.updated, "
	mending     = "notes.mended_by, notes.mended"
	unmended    = "'', 0" // of a store that is older
)

// WriteNote implements memory.Notes.
func (s *Store) WriteNote(ctx context.Context, n memory.Note, max int) error {
	labels, err := jsonform.Marshal(n.Labels)
	if err != nil {
		return fmt.Errorf("encode labels: %w", err)
	}
	err = s.writer.write(ctx, func(w *writer) error {
		if err := w.noteFits(n, max); err != nil {
			return err
		}
		return w.putNote(n, labels)
	})
	if err != nil {
		return fmt.Errorf("write note %q: %w", n.Key, err)
	}
	return nil
}

// noteFits returns an error unless a note replaces another one or there is room for it.
func (w *writer) noteFits(n memory.Note, max int) error {
	if max <= 0 {
		return nil
	}
	var there, count int
	err := w.row("SELECT count(*), count(*) FILTER (WHERE key = ?) FROM notes WHERE agent = ? AND person = ?", []any{n.Key, n.Agent, n.Person}, &count, &there)
	if err == nil && there == 0 && count >= max {
		err = store.ErrNoRoom
	}
	return err
}

const putNote = `INSERT INTO notes (agent, person, key, text, sender, turn, labels, updated, extracted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (agent, person, key) DO UPDATE SET text = excluded.text, sender = excluded.sender, turn = excluded.turn,
		labels = excluded.labels, updated = excluded.updated, extracted = excluded.extracted, mended_by = '', mended = 0`

func (w *writer) putNote(n memory.Note, labels []byte) error {
	return w.exec(putNote, n.Agent, n.Person, n.Key, n.Text, n.By, n.Turn, labels, nanos(n.Updated), false)
}

// putExtracted does not replace a note that was written on purpose.
func (w *writer) putExtracted(n memory.Note, labels []byte) error {
	return w.exec(putNote+" WHERE notes.extracted", n.Agent, n.Person, n.Key, n.Text, n.By, n.Turn, labels, nanos(n.Updated), true)
}

// ReadNote implements memory.Notes.
func (s *Store) ReadNote(ctx context.Context, agent, person, key string) (memory.Note, error) {
	n, err := one(ctx, s.read, scanNote, "SELECT "+noteColumns+mending+" FROM notes WHERE agent = ? AND person = ? AND key = ?", agent, person, key)
	if err != nil {
		return n, fmt.Errorf("read note %q: %w", key, err)
	}
	return n, nil
}

// SearchNotes implements memory.Notes.
func (s *Store) SearchNotes(ctx context.Context, q memory.NoteQuery) ([]memory.Note, error) {
	return searchNotes(ctx, s.read, q, mending)
}

func searchNotes(ctx context.Context, db Reads, q memory.NoteQuery, mending string) ([]memory.Note, error) {
	from, order, args := "notes", "updated DESC, notes.id DESC", []any(nil)
	where, more := noteWhere(q)
	if words := wordsOf(q.Words); len(words) > 0 {
		switch db.Dialect() {
		case SQLite:
			if from = "notes_text JOIN notes ON notes.id = notes_text.rowid"; !q.Latest {
				order = "rank"
			}
			where = "notes_text MATCH ? AND " + where
			args = append(args, match(words, q.Any))
		case Postgres:
			if from = "notes CROSS JOIN search_query(?, ?, FALSE) AS query"; !q.Latest {
				order = "ts_rank(words, query) DESC, notes.id"
			}
			where = "words @@ query AND " + where
			list, err := jsonform.Marshal(words)
			if err != nil {
				return nil, err
			}
			args = append(args, string(list), q.Any)
		}
	}
	args = append(append(args, more...), cmp.Or(q.Limit, 1000))
	return list(ctx, db, scanNote, "SELECT "+noteColumns+mending+" FROM "+from+" WHERE "+where+" ORDER BY "+order+" LIMIT ?", args...)
}

// noteWhere returns the condition of a query, except for its words.
func noteWhere(q memory.NoteQuery) (where string, args []any) {
	where = "TRUE"
	and := func(column string, value any, given bool) {
		if given {
			where += " AND notes." + column + " = ?"
			args = append(args, value)
		}
	}
	and("agent", q.Agent, q.Agent != "")
	and("key", q.Key, q.Key != "")
	and("id", q.ID, q.ID != 0)
	if q.Before != nil {
		where += " AND (notes.updated, notes.id) < (?, ?)"
		args = append(args, nanos(q.Before.Updated), q.Before.ID)
	}
	if q.Persons != nil {
		where += " AND notes.person IN (''" + strings.Repeat(", ?", len(q.Persons)) + ")"
		for _, p := range q.Persons {
			args = append(args, p)
		}
		if !slices.Contains(q.Persons, memory.Own) {
			where += " AND notes.person <> ''"
		}
	}
	return where, args
}

// MendNote implements memory.Notes. A mended note counts as written on purpose: nothing that is extracted replaces it.
func (s *Store) MendNote(ctx context.Context, id int64, was, text, by string, at time.Time) (memory.Note, error) {
	err := s.writer.write(ctx, func(w *writer) error {
		var now string
		if err := w.row("SELECT text FROM notes WHERE id = ? /* lock */", []any{id}, &now); errors.Is(err, sql.ErrNoRows) {
			return store.NotFound(fmt.Sprintf("no note %d", id))
		} else if err != nil {
			return err
		}
		if now != was {
			return store.Conflict(fmt.Sprintf("note %d has another text by now: read it again", id))
		}
		return w.exec("UPDATE notes SET text = ?, mended_by = ?, mended = ?, extracted = FALSE WHERE id = ?", text, by, nanos(at), id)
	})
	if err != nil {
		return memory.Note{}, err
	}
	return one(ctx, s.read, scanNote, "SELECT "+noteColumns+mending+" FROM notes WHERE id = ?", id)
}

// ForgetNotes implements memory.Notes.
func (s *Store) ForgetNotes(ctx context.Context, q memory.NoteQuery) ([]memory.Note, error) {
	if q.Words != "" {
		return nil, errors.New("forget notes: cannot select by words; name ids or keys")
	}
	q.Limit = math.MaxInt32
	notes, err := s.SearchNotes(ctx, q)
	if err != nil {
		return nil, err
	}
	where, args := noteWhere(q)
	err = s.writer.write(ctx, func(w *writer) error { return w.exec("DELETE FROM notes WHERE "+where, args...) })
	if err != nil {
		return nil, fmt.Errorf("forget notes: %w", err)
	}
	return notes, nil
}

// wordsOf returns the words of a search. SQLite and Postgres take each as a phrase, so that a query is never search syntax.
func wordsOf(query string) []string { return strings.Fields(strings.ReplaceAll(query, "\x00", " ")) }

// match returns a search for words in the syntax of SQLite.
func match(words []string, any bool) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = `"` + strings.ReplaceAll(w, `"`, `""`) + `"`
	}
	if any {
		return strings.Join(quoted, " OR ")
	}
	return strings.Join(quoted, " ")
}

func scanNote(scan func(...any) error) (memory.Note, error) {
	var n memory.Note
	var labels []byte
	var updated, mended int64
	if err := scan(&n.ID, &n.Agent, &n.Person, &n.Key, &n.Text, &n.By, &n.Turn, &labels, &updated, &n.MendedBy, &mended); err != nil {
		return n, err
	}
	n.Updated, n.Mended = instant(updated), instant(mended)
	return n, json.Unmarshal(labels, &n.Labels)
}
