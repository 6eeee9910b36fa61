package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Elevate implements consent.Elevations.
func (s *Store) Elevate(ctx context.Context, e consent.Elevation, row consent.AuditRow) error {
	body, err := jsonform.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode elevation: %w", err)
	}
	err = s.writer.write(ctx, func(w *writer) error {
		err := w.exec(`INSERT INTO elevations (conversation, began, body) VALUES (?, ?, ?)
			ON CONFLICT (conversation) DO UPDATE SET began = excluded.began, body = excluded.body`, e.Conversation, nanos(e.Began), body)
		if err != nil {
			return err
		}
		return w.audit(row)
	})
	if err != nil {
		return fmt.Errorf("elevate %s: %w", e.Conversation, err)
	}
	return nil
}

// Elevation implements consent.Elevations.
func (s *Store) Elevation(ctx context.Context, conversation message.ConversationKey) (consent.Elevation, error) {
	e, err := one(ctx, s.read, scanElevation, "SELECT body FROM elevations WHERE conversation = ?", conversation)
	if err != nil {
		return e, fmt.Errorf("read the elevation of %s: %w", conversation, err)
	}
	return e, nil
}

// Elevations implements consent.Elevations.
func (s *Store) Elevations(ctx context.Context) ([]consent.Elevation, error) {
	return list(ctx, s.read, scanElevation, "SELECT body FROM elevations ORDER BY conversation")
}

// EndElevation implements consent.Elevations.
func (s *Store) EndElevation(ctx context.Context, conversation message.ConversationKey, began time.Time, row consent.AuditRow) error {
	err := s.writer.write(ctx, func(w *writer) error {
		err := w.changeOne("DELETE FROM elevations WHERE conversation = ? AND began = ?", conversation, nanos(began))
		if err != nil {
			return err
		}
		return w.audit(row)
	})
	if err != nil {
		return fmt.Errorf("end the elevation of %s: %w", conversation, err)
	}
	return nil
}

func scanElevation(scan func(...any) error) (consent.Elevation, error) {
	var e consent.Elevation
	var body []byte
	if err := scan(&body); err != nil {
		return e, err
	}
	return e, json.Unmarshal(body, &e)
}
