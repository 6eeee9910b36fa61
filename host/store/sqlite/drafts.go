package sqlite

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/store"
)

// PutDraft implements store.Drafts.
func (s *Store) PutDraft(ctx context.Context, d store.Draft) error {
	err := s.writer.write(ctx, func(w *writer) error {
		return w.exec(`INSERT INTO drafts (key, turn, message_id, sent_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET message_id = excluded.message_id, sent_at = excluded.sent_at`,
			d.Key, d.Turn, d.MessageID, nanos(d.SentAt))
	})
	if err != nil {
		return fmt.Errorf("keep draft %s: %w", d.Key, err)
	}
	return nil
}

// DropDraft implements store.Drafts.
func (s *Store) DropDraft(ctx context.Context, key string) error {
	err := s.writer.write(ctx, func(w *writer) error { return w.exec("DELETE FROM drafts WHERE key = ?", key) })
	if err != nil {
		return fmt.Errorf("forget draft %s: %w", key, err)
	}
	return nil
}

// OpenDrafts implements store.Drafts.
func (s *Store) OpenDrafts(ctx context.Context) ([]store.Draft, error) {
	err := s.writer.write(ctx, func(w *writer) error {
		return w.exec(`DELETE FROM drafts WHERE
			NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.key = drafts.key AND outbox.state IN ('pending', 'sending')) AND
			NOT EXISTS (SELECT 1 FROM turns WHERE turns.id = drafts.turn AND turns.state = 'running')`)
	})
	if err != nil {
		return nil, fmt.Errorf("forget drafts that are settled: %w", err)
	}
	return list(ctx, s.read, scanDraft, "SELECT key, turn, message_id, sent_at FROM drafts ORDER BY key")
}

func scanDraft(scan func(...any) error) (store.Draft, error) {
	var d store.Draft
	var at int64
	err := scan(&d.Key, &d.Turn, &d.MessageID, &at)
	d.SentAt = instant(at)
	return d, err
}
