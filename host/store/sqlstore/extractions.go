package sqlstore

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/internal/jsonform"
)

// PendingExtractions implements memory.Extractions.
func (s *Store) PendingExtractions(ctx context.Context, limit int) ([]memory.Extraction, error) {
	return list(ctx, s.read, func(scan func(...any) error) (memory.Extraction, error) {
		var e memory.Extraction
		var err error
		e.Turn, err = scanTurn(func(dest ...any) error { return scan(append([]any{&e.Attempts}, dest...)...) })
		return e, err
	}, "SELECT attempts, "+turnColumns+" FROM extractions JOIN turns ON turns.id = extractions.turn ORDER BY id LIMIT ?", limit)
}

// FinishExtraction implements memory.Extractions.
func (s *Store) FinishExtraction(ctx context.Context, turn string, notes []memory.Note, max int) error {
	var labels [][]byte
	for _, n := range notes {
		b, err := jsonform.Marshal(n.Labels)
		if err != nil {
			return fmt.Errorf("encode labels: %w", err)
		}
		labels = append(labels, b)
	}
	err := s.writer.write(ctx, func(w *writer) error {
		if err := w.changeOne("DELETE FROM extractions WHERE turn = ?", turn); err != nil {
			return err
		}
		for i, n := range notes {
			if err := w.putExtracted(n, labels[i]); err != nil {
				return err
			}
		}
		return w.makeRoom(notes, max)
	})
	if err != nil {
		return fmt.Errorf("finish the extraction of turn %s: %w", turn, err)
	}
	return nil
}

// makeRoom deletes the oldest extracted notes of the scopes that have become too large.
func (w *writer) makeRoom(notes []memory.Note, max int) error {
	for _, n := range notes {
		if err := w.exec(`DELETE FROM notes WHERE id IN (SELECT id FROM notes WHERE agent = ?1 AND person = ?2 AND extracted ORDER BY updated, id
			LIMIT (SELECT CASE WHEN count(*) > ?3 THEN count(*) - ?3 ELSE 0 END FROM notes WHERE agent = ?1 AND person = ?2))`, n.Agent, n.Person, max); err != nil {
			return err
		}
	}
	return nil
}

// RetryExtraction implements memory.Extractions.
func (s *Store) RetryExtraction(ctx context.Context, turn string) error {
	return s.writer.write(ctx, func(w *writer) error {
		return w.exec("UPDATE extractions SET attempts = attempts + 1 WHERE turn = ?", turn)
	})
}
