package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/access/signins"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// PutCode implements signins.Store.
func (s *Store) PutCode(ctx context.Context, c signins.Code) error {
	err := s.writer.write(ctx, func(w *writer) error {
		if err := w.exec("DELETE FROM signin_codes WHERE sender = ? AND event <> ? OR expires <= ?", c.Sender, c.Event, nanos(c.Asked)); err != nil {
			return err
		}
		return w.exec("INSERT INTO signin_codes (digest, sender, event, asked, expires) VALUES (?, ?, ?, ?, ?)",
			c.Digest, c.Sender, c.Event, nanos(c.Asked), nanos(c.Expires))
	})
	if err != nil {
		return fmt.Errorf("keep the code of %s: %w", c.Sender, err)
	}
	return nil
}

// UseCode implements signins.Store.
func (s *Store) UseCode(ctx context.Context, digest string, in signins.SignIn) (signins.SignIn, error) {
	err := s.writer.write(ctx, func(w *writer) error {
		now := nanos(in.Began)
		err := w.row("SELECT sender FROM signin_codes WHERE digest = ? AND asked <= ? AND expires > ? /* lock */", []any{digest, now, now}, &in.Sender)
		if errors.Is(err, sql.ErrNoRows) {
			return store.ErrNotFound
		}
		if err == nil {
			err = w.exec("DELETE FROM signin_codes WHERE sender = ?", in.Sender)
		}
		if err == nil {
			err = w.exec("INSERT INTO signins (id, digest, sender, began, used) VALUES (?, ?, ?, ?, ?)", in.ID, in.Digest, in.Sender, now, nanos(in.Used))
		}
		return err
	})
	if err != nil {
		return signins.SignIn{}, fmt.Errorf("use the code of a sign-in: %w", err)
	}
	return in, nil
}

// DropCodes implements signins.Store.
func (s *Store) DropCodes(ctx context.Context, sender message.SenderKey) error {
	return s.changeSignIns(ctx, "DELETE FROM signin_codes WHERE sender = ?", sender)
}

// TouchSignIn implements signins.Store.
func (s *Store) TouchSignIn(ctx context.Context, id string, used time.Time) error {
	return s.changeSignIns(ctx, "UPDATE signins SET used = ? WHERE id = ?", nanos(used), id)
}

// DropSignIn implements signins.Store.
func (s *Store) DropSignIn(ctx context.Context, id string) error {
	return s.changeSignIns(ctx, "DELETE FROM signins WHERE id = ?", id)
}

func (s *Store) changeSignIns(ctx context.Context, query string, args ...any) error {
	if err := s.writer.write(ctx, func(w *writer) error { return w.exec(query, args...) }); err != nil {
		return fmt.Errorf("change the sign-ins: %w", err)
	}
	return nil
}

// ListSignIns implements signins.Store.
func (s *Store) ListSignIns(ctx context.Context) ([]signins.SignIn, error) {
	return list(ctx, s.read, scanSignIn, "SELECT id, digest, sender, began, used FROM signins ORDER BY id")
}

func scanSignIn(scan func(...any) error) (signins.SignIn, error) {
	var in signins.SignIn
	var began, used int64
	err := scan(&in.ID, &in.Digest, &in.Sender, &began, &used)
	in.Began, in.Used = instant(began), instant(used)
	return in, err
}
