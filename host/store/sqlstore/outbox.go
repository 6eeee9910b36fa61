package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

const outboxColumns = "id, turn, reply, state, attempts, next_try, note, platform_ids, parts, part, pause"

// UnsentOutbox implements mailbox.Outbox.
func (s *Store) UnsentOutbox(ctx context.Context) ([]mailbox.OutboxRow, error) {
	return list(ctx, s.read, scanOutbox, "SELECT "+outboxColumns+" FROM outbox WHERE state IN ('pending', 'sending') ORDER BY id")
}

// Replies implements mailbox.Outbox.
func (s *Store) Replies(ctx context.Context, turn string) ([]mailbox.OutboxRow, error) {
	return list(ctx, s.read, scanOutbox, "SELECT "+outboxColumns+" FROM outbox WHERE turn = ? ORDER BY id", turn)
}

// AddReplies implements mailbox.Outbox.
func (s *Store) AddReplies(ctx context.Context, turn string, replies []message.Reply) ([]message.Reply, error) {
	bodies, err := encodeReplies(replies)
	if err != nil {
		return nil, err
	}
	var fresh []message.Reply // may still be written to when the context has ended
	err = s.writer.write(ctx, func(w *writer) (err error) {
		fresh, err = addReplies(w, turn, replies, bodies)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("add replies: %w", err)
	}
	return fresh, nil
}

func encodeReplies(replies []message.Reply) ([][]byte, error) {
	bodies := make([][]byte, len(replies))
	for i, r := range replies {
		body, err := jsonform.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("encode reply: %w", err)
		}
		bodies[i] = body
	}
	return bodies, nil
}

// addReplies adds the replies whose key is new, and returns them.
func addReplies(w *writer, turn string, replies []message.Reply, bodies [][]byte) (fresh []message.Reply, err error) {
	for i, r := range replies {
		n, err := w.changed("INSERT INTO outbox (key, turn, reply, state) VALUES (?, ?, ?, 'pending') ON CONFLICT DO NOTHING",
			r.Key, turn, bodies[i])
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		if err := w.poke(store.SignalWork, store.ChannelOwner(r.Channel)); err != nil {
			return nil, err
		}
		fresh = append(fresh, r)
	}
	return fresh, nil
}

// lookBack bounds the turns of a conversation that are searched for a sent message.
const lookBack = 100

// FindSent implements mailbox.Earlier.
func (s *Store) FindSent(ctx context.Context, channel, conversation, platformID string) (mailbox.OutboxRow, error) {
	if err := s.writer.settle(ctx); err != nil { // people may react to a message at once
		return mailbox.OutboxRow{}, err
	}
	rows, err := list(ctx, s.read, scanOutbox, "SELECT "+outboxColumns+` FROM outbox WHERE state = 'sent' AND turn IN
		(SELECT id FROM turns WHERE channel = ? AND conversation = ? ORDER BY id DESC LIMIT ?) ORDER BY id DESC`,
		channel, conversation, lookBack)
	if err != nil {
		return mailbox.OutboxRow{}, err
	}
	for _, r := range rows {
		if slices.Contains(r.PlatformIDs, platformID) {
			return r, nil
		}
	}
	return mailbox.OutboxRow{}, store.ErrNotFound
}

// LastPrivate implements mailbox.Earlier.
func (s *Store) LastPrivate(ctx context.Context, channel string, sender message.SenderKey) (message.Conversation, error) {
	turns, err := list(ctx, s.read, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE sender = ? AND channel = ? AND parent = '' ORDER BY id DESC LIMIT ?",
		sender, channel, lookBack)
	if err != nil {
		return message.Conversation{}, err
	}
	for _, t := range turns {
		if t.Conversation.Kind == message.DM {
			return t.Conversation, nil
		}
	}
	return message.Conversation{}, store.ErrNotFound
}

// Senders implements mailbox.Earlier. It takes one step in the index for each sender, however many turns he has.
func (s *Store) Senders(ctx context.Context) ([]message.SenderKey, error) {
	return list(ctx, s.read, scanText[message.SenderKey], `WITH RECURSIVE people (sender) AS (SELECT min(sender) FROM turns UNION ALL
		SELECT (SELECT min(sender) FROM turns WHERE turns.sender > people.sender) FROM people WHERE sender IS NOT NULL)
		SELECT sender FROM people WHERE sender <> ''`)
}

// Holders implements turnlog.Turns.
func (s *Store) Holders(ctx context.Context) ([]turnlog.Holder, error) { return holders(ctx, s.read) }

// Holders implements the method of turnlog.Turns for reading.
func (r *Reader) Holders(ctx context.Context) ([]turnlog.Holder, error) {
	if r.version < parentVersion {
		return nil, nil
	}
	return holders(ctx, r.db)
}

// parentVersion is the first schema version that records delegation.
const parentVersion = 11

func holders(ctx context.Context, db Reads) ([]turnlog.Holder, error) {
	scan := func(scan func(...any) error) (h turnlog.Holder, err error) {
		err = scan(&h.Session, &h.Sender)
		return h, err
	}
	return list(ctx, db, scan, `SELECT session, sender FROM turns WHERE id IN (SELECT max(id) FROM turns WHERE parent = '' GROUP BY session)`)
}

// SetOutbox implements mailbox.Outbox.
func (s *Store) SetOutbox(ctx context.Context, row mailbox.OutboxRow) error {
	return s.setOutbox(ctx, row, s.writer.write)
}

// SettleOutbox implements mailbox.Settler.
func (s *Store) SettleOutbox(ctx context.Context, row mailbox.OutboxRow) error {
	return s.setOutbox(ctx, row, s.writer.writePatiently)
}

func (s *Store) setOutbox(ctx context.Context, row mailbox.OutboxRow, write func(context.Context, func(*writer) error) error) error {
	reply, err := jsonform.Marshal(row.Reply)
	if err != nil {
		return fmt.Errorf("encode reply: %w", err)
	}
	ids, err := jsonform.Marshal(row.PlatformIDs)
	if err != nil {
		return fmt.Errorf("encode platform ids: %w", err)
	}
	parts, err := jsonform.Marshal(row.Parts)
	if err != nil {
		return fmt.Errorf("encode parts: %w", err)
	}
	err = write(ctx, owned(store.ChannelOwner(row.Reply.Channel), func(w *writer) error {
		return w.changeOne(`UPDATE outbox SET reply = ?, state = ?, attempts = ?, next_try = ?, note = ?, platform_ids = ?, parts = ?, part = ?, pause = ?
			WHERE key = ? AND state IN ('pending', 'sending')`,
			reply, row.State, row.Attempts, nanos(row.NextTry), row.Note, ids, parts, row.Part, row.Pause, row.Reply.Key)
	}))
	if err != nil {
		return fmt.Errorf("set outbox row %s to %s: %w", row.Reply.Key, row.State, err)
	}
	return nil
}

func scanOutbox(scan func(...any) error) (mailbox.OutboxRow, error) {
	var r mailbox.OutboxRow
	var reply, ids, parts []byte
	var next int64
	if err := scan(&r.ID, &r.Turn, &reply, &r.State, &r.Attempts, &next, &r.Note, &ids, &parts, &r.Part, &r.Pause); err != nil {
		return r, err
	}
	r.NextTry = instant(next)
	if err := json.Unmarshal(reply, &r.Reply); err != nil {
		return r, err
	}
	if err := json.Unmarshal(parts, &r.Parts); err != nil {
		return r, err
	}
	return r, json.Unmarshal(ids, &r.PlatformIDs)
}
