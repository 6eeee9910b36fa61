package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
)

// pairingsVersion is the first schema version with pairings.
const pairingsVersion = 7

// AskPairing implements pairings.Store.
func (s *Store) AskPairing(ctx context.Context, m message.Message, note string, p pairings.Pairing, turn string, replies []message.Reply) (bool, error) {
	said, err := jsonform.Marshal(m)
	if err != nil {
		return false, fmt.Errorf("encode message: %w", err)
	}
	put, _, err := putPairing(p, turn, replies)
	if err != nil {
		return false, err
	}
	var fresh bool // may still be written to when the context has ended
	err = s.writer.write(ctx, func(w *writer) error {
		fresh = false
		n, err := w.changed("INSERT INTO inbox (channel, event_id, message, state, note) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			m.Channel, m.EventID, said, mailbox.InboxDropped, note)
		if err != nil || n == 0 {
			return err
		}
		fresh = true
		w.touchConversation(m.ConversationKey(), m.SenderKey())
		return put(w)
	})
	if err != nil {
		return false, fmt.Errorf("keep the request of %s: %w", p.Sender, err)
	}
	return fresh, nil
}

// PutPairing implements pairings.Store.
func (s *Store) PutPairing(ctx context.Context, p pairings.Pairing, turn string, replies []message.Reply) ([]message.Reply, error) {
	put, fresh, err := putPairing(p, turn, replies)
	if err != nil {
		return nil, err
	}
	if err := s.writer.write(ctx, put); err != nil {
		return nil, fmt.Errorf("keep the pairing of %s: %w", p.Sender, err)
	}
	return *fresh, nil
}

// putPairing prepares the write of a pairing with its replies; fresh is set when it has run.
func putPairing(p pairings.Pairing, turn string, replies []message.Reply) (put func(*writer) error, fresh *[]message.Reply, err error) {
	body, err := jsonform.Marshal(p)
	if err != nil {
		return nil, nil, fmt.Errorf("encode pairing: %w", err)
	}
	bodies, err := encodeReplies(replies)
	fresh = new([]message.Reply)
	return func(w *writer) (err error) {
		if err = w.exec(`INSERT INTO pairings (sender, state, body) VALUES (?, ?, ?)
			ON CONFLICT (sender) DO UPDATE SET state = excluded.state, body = excluded.body`, p.Sender, p.State, body); err != nil {
			return err
		}
		*fresh, err = addReplies(w, turn, replies, bodies)
		return err
	}, fresh, err
}

// DropPairing implements pairings.Store.
func (s *Store) DropPairing(ctx context.Context, sender message.SenderKey) error {
	err := s.writer.write(ctx, func(w *writer) error { return w.exec("DELETE FROM pairings WHERE sender = ?", sender) })
	if err != nil {
		return fmt.Errorf("forget the pairing of %s: %w", sender, err)
	}
	return nil
}

const listPairings = "SELECT body FROM pairings ORDER BY sender"

// ListPairings implements pairings.Store.
func (s *Store) ListPairings(ctx context.Context) ([]pairings.Pairing, error) {
	return list(ctx, s.read, scanPairing, listPairings)
}

// ListPairings implements the method of pairings.Store for reading.
func (r *Reader) ListPairings(ctx context.Context) ([]pairings.Pairing, error) {
	if r.version < pairingsVersion {
		return nil, nil
	}
	return list(ctx, r.db, scanPairing, listPairings)
}

func scanPairing(scan func(...any) error) (pairings.Pairing, error) {
	var p pairings.Pairing
	var body []byte
	if err := scan(&body); err != nil {
		return p, err
	}
	return p, json.Unmarshal(body, &p)
}

// PutGuesses implements pairings.Store.
func (s *Store) PutGuesses(ctx context.Context, g pairings.Guesses) error {
	err := s.writer.write(ctx, func(w *writer) error {
		return w.exec(`INSERT INTO pairing_guesses (guesser, wrong, since, locked) VALUES (?, ?, ?, ?)
			ON CONFLICT (guesser) DO UPDATE SET wrong = excluded.wrong, since = excluded.since, locked = excluded.locked`,
			g.Guesser, g.Wrong, nanos(g.Since), nanos(g.Locked))
	})
	if err != nil {
		return fmt.Errorf("count the wrong codes of %s: %w", g.Guesser, err)
	}
	return nil
}

// DropGuesses implements pairings.Store.
func (s *Store) DropGuesses(ctx context.Context, guesser string) error {
	err := s.writer.write(ctx, func(w *writer) error { return w.exec("DELETE FROM pairing_guesses WHERE guesser = ?", guesser) })
	if err != nil {
		return fmt.Errorf("forget the wrong codes of %s: %w", guesser, err)
	}
	return nil
}

// ListGuesses implements pairings.Store.
func (s *Store) ListGuesses(ctx context.Context) ([]pairings.Guesses, error) {
	return list(ctx, s.read, func(scan func(...any) error) (pairings.Guesses, error) {
		var g pairings.Guesses
		var since, locked int64
		err := scan(&g.Guesser, &g.Wrong, &since, &locked)
		g.Since, g.Locked = instant(since), instant(locked)
		return g, err
	}, "SELECT guesser, wrong, since, locked FROM pairing_guesses ORDER BY guesser")
}
