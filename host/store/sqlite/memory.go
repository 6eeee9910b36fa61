package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/store"
)

const noteColumns = "notes.id, notes.agent, notes.key, notes.text, notes.sender, notes.labels, notes.updated"

// WriteNote implements store.Memory.
func (s *Store) WriteNote(ctx context.Context, n store.Note) error {
	labels, err := json.Marshal(n.Labels)
	if err != nil {
		return fmt.Errorf("encode labels: %w", err)
	}
	err = s.writer.write(ctx, func(w *writer) error {
		return w.exec(`INSERT INTO notes (agent, key, text, sender, labels, updated) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (agent, key) DO UPDATE SET text = excluded.text, sender = excluded.sender, labels = excluded.labels, updated = excluded.updated`,
			n.Agent, n.Key, n.Text, n.By, labels, nanos(n.Updated))
	})
	if err != nil {
		return fmt.Errorf("write note %q: %w", n.Key, err)
	}
	return nil
}

// ReadNote implements store.Memory.
func (s *Store) ReadNote(ctx context.Context, agent, key string) (store.Note, error) {
	n, err := one(ctx, s.read, scanNote, "SELECT "+noteColumns+" FROM notes WHERE agent = ? AND key = ?", agent, key)
	if err != nil {
		return n, fmt.Errorf("read note %q: %w", key, err)
	}
	return n, nil
}

// SearchNotes implements store.Memory. Every word of the query must occur; best matches first.
func (s *Store) SearchNotes(ctx context.Context, agent, query string, limit int) ([]store.Note, error) {
	match := matchWords(query)
	if match == "" {
		return list(ctx, s.read, scanNote, "SELECT "+noteColumns+" FROM notes WHERE agent = ? ORDER BY updated DESC LIMIT ?", agent, limit)
	}
	return list(ctx, s.read, scanNote, "SELECT "+noteColumns+` FROM notes_text JOIN notes ON notes.id = notes_text.rowid
		WHERE notes_text MATCH ? AND notes.agent = ? ORDER BY rank LIMIT ?`, match, agent, limit)
}

// matchWords quotes each word, so that a query is text and never search syntax.
func matchWords(query string) string {
	words := strings.Fields(strings.ReplaceAll(query, "\x00", " "))
	for i, w := range words {
		words[i] = `"` + strings.ReplaceAll(w, `"`, `""`) + `"`
	}
	return strings.Join(words, " ")
}

func scanNote(scan func(...any) error) (store.Note, error) {
	var n store.Note
	var labels []byte
	var updated int64
	if err := scan(&n.ID, &n.Agent, &n.Key, &n.Text, &n.By, &labels, &updated); err != nil {
		return n, err
	}
	n.Updated = instant(updated)
	return n, json.Unmarshal(labels, &n.Labels)
}

// conflict turns "no such row in that state" into store.ErrConflict.
func conflict(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrConflict
	}
	return err
}
