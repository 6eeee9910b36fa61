package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/store"
)

// Scope implements turnlog.Scopes. Every turn begins with it. With Postgres other hosts write, too, so that nothing is cached.
func (s *Store) Scope(ctx context.Context, key string) (turnlog.Scope, error) {
	if s.read.Dialect() == Postgres {
		return readScope(ctx, s.read, key)
	}
	p, known, as := s.writer.scopes.get(key)
	if known {
		return p, nil
	}
	p, err := readScope(ctx, s.read, key)
	if err == nil {
		s.writer.scopes.keep(p, as)
	}
	return p, err
}

func readScope(ctx context.Context, db Reads, key string) (turnlog.Scope, error) {
	p, err := one(ctx, db, scanScope, "SELECT key, epoch, began, why, agent, tier FROM places WHERE key = ?", key)
	if errors.Is(err, store.ErrNotFound) {
		return turnlog.Scope{Key: key, Epoch: 1}, nil
	}
	return p, err
}

func scanScope(scan func(...any) error) (turnlog.Scope, error) {
	var p turnlog.Scope
	var began int64
	err := scan(&p.Key, &p.Epoch, &began, &p.Why, &p.Agent, &p.Tier)
	p.Began = instant(began)
	return p, err
}

// SetScope implements turnlog.Scopes.
func (s *Store) SetScope(ctx context.Context, p turnlog.Scope) error {
	if err := s.writer.write(ctx, func(w *writer) error { return putScope(w, p) }); err != nil {
		return fmt.Errorf("set scope %s: %w", p.Key, err)
	}
	return nil
}

func putScope(w *writer, p turnlog.Scope) error {
	w.over = append(w.over, func() { w.scopes.changed(p.Key) })
	return w.exec(`INSERT INTO places (key, epoch, began, why, agent, tier) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET epoch = excluded.epoch, began = excluded.began, why = excluded.why, agent = excluded.agent,
		tier = excluded.tier`, p.Key, p.Epoch, nanos(p.Began), p.Why, p.Agent, p.Tier)
}

// Settle implements turnlog.Scopes.
func (s *Store) Settle(ctx context.Context, c turnlog.Settlement) error {
	bodies := make([][]byte, len(c.Replies))
	for i, r := range c.Replies {
		var err error
		if bodies[i], err = jsonform.Marshal(r); err != nil {
			return fmt.Errorf("encode reply: %w", err)
		}
	}
	summary, err := encodeBesides(turnlog.Commit{Summary: c.Summary})
	if err != nil {
		return fmt.Errorf("encode summary: %w", err)
	}
	deletedSession := make([]deletedSession, len(c.Deletions))
	for i, d := range c.Deletions {
		if deletedSession[i], err = s.toDelete(ctx, d); err != nil {
			return fmt.Errorf("settle inbox row %d: %w", c.Inbox, err)
		}
	}
	err = s.writer.write(ctx, func(w *writer) error {
		if err := setInbox(w, c.Inbox, mailbox.InboxDone, c.Note); err != nil {
			return err
		}
		if err := w.touchMessage(c.Inbox); err != nil {
			return err
		}
		for _, d := range deletedSession {
			if err := w.deleteSession(d); err != nil {
				return fmt.Errorf("%v", err) // without ErrConflict, which would mean that the message was settled before
			}
		}
		if err := commitBesides(w, turnlog.Commit{Summary: c.Summary}, summary); err != nil {
			return err
		}
		if c.Scope != nil {
			if err := putScope(w, *c.Scope); err != nil {
				return err
			}
		}
		for _, id := range c.Told {
			if err := toldOf(w, id); err != nil {
				return err
			}
		}
		for i, r := range c.Replies {
			if err := w.exec("INSERT INTO outbox (key, turn, reply, state) VALUES (?, ?, ?, 'pending')", r.Key, c.Turn, bodies[i]); err != nil {
				return err
			}
			if err := w.poke(store.SignalWork, store.ChannelOwner(r.Channel)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("settle inbox row %d: %w", c.Inbox, err)
	}
	return nil
}

// Halt implements turnlog.Halts.
func (s *Store) Halt(ctx context.Context) (turnlog.Halt, error) {
	h, err := one(ctx, s.read, scanHalt, "SELECT stopped, reason, by, since FROM halt")
	if errors.Is(err, store.ErrNotFound) {
		return turnlog.Halt{}, nil
	}
	return h, err
}

func scanHalt(scan func(...any) error) (turnlog.Halt, error) {
	var h turnlog.Halt
	var since int64
	err := scan(&h.On, &h.Reason, &h.By, &since)
	h.Since = instant(since)
	return h, err
}

// SetHalt implements turnlog.Halts.
func (s *Store) SetHalt(ctx context.Context, h turnlog.Halt) error {
	err := s.writer.write(ctx, func(w *writer) error {
		return w.exec(`INSERT INTO halt (id, stopped, reason, by, since) VALUES (1, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET stopped = excluded.stopped, reason = excluded.reason, by = excluded.by, since = excluded.since`,
			h.On, h.Reason, h.By, nanos(h.Since))
	})
	if err != nil {
		return fmt.Errorf("set the kill switch: %w", err)
	}
	return nil
}
