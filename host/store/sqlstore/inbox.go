package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// AppendInbox implements mailbox.Inbox.
func (s *Store) AppendInbox(ctx context.Context, m message.Message, state mailbox.InboxState, note string) (mailbox.InboxRow, bool, error) {
	body, err := jsonform.Marshal(m)
	if err != nil {
		return mailbox.InboxRow{}, false, fmt.Errorf("encode message: %w", err)
	}
	var row mailbox.InboxRow
	var fresh bool
	err = s.writer.writeEither(ctx, func(w *writer) error {
		row, fresh = mailbox.InboxRow{Message: m, State: state, Note: note}, false
		id, err := w.session.Insert("INSERT INTO inbox (channel, event_id, message, state, note) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			m.Channel, m.EventID, body, state, note)
		if fresh = err == nil; fresh {
			row.ID = id
			w.touchConversation(m.ConversationKey(), m.SenderKey())
		}
		if fresh && (state == mailbox.InboxNew || state == mailbox.InboxNoted) {
			return w.summon(store.ConversationOwner(m.ConversationKey()))
		}
		if fresh || !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		row, err = scanInbox(func(dest ...any) error {
			return w.row("SELECT "+inboxColumns+" FROM inbox WHERE channel = ? AND event_id = ?", []any{m.Channel, m.EventID}, dest...)
		})
		return err
	})
	if err != nil {
		return mailbox.InboxRow{}, false, fmt.Errorf("append to inbox: %w", err)
	}
	return row, fresh, nil
}

// PendingInbox implements mailbox.Inbox.
func (s *Store) PendingInbox(ctx context.Context) ([]mailbox.InboxRow, error) {
	return list(ctx, s.read, scanInbox, "SELECT "+inboxColumns+" FROM inbox WHERE state = 'new' ORDER BY id")
}

// NotedInbox implements mailbox.Inbox.
func (s *Store) NotedInbox(ctx context.Context) ([]mailbox.InboxRow, error) {
	return list(ctx, s.read, scanInbox, "SELECT "+inboxColumns+" FROM inbox WHERE state = 'noted' ORDER BY id")
}

// FindInbox implements mailbox.Earlier.
func (s *Store) FindInbox(ctx context.Context, channel, eventID string) (mailbox.InboxRow, error) {
	return one(ctx, s.read, scanInbox, "SELECT "+inboxColumns+" FROM inbox WHERE channel = ? AND event_id = ?", channel, eventID)
}

// SetInbox implements mailbox.Inbox.
func (s *Store) SetInbox(ctx context.Context, id int64, state mailbox.InboxState, note string) error {
	err := s.writer.write(ctx, func(w *writer) error {
		if err := w.ownsRow(store.ConversationOwner, whereOfInbox, id); err != nil {
			return err
		}
		if err := setInbox(w, id, state, note); err != nil {
			return err
		}
		return w.touchMessage(id)
	})
	if err != nil {
		return fmt.Errorf("set inbox row %d to %s: %w", id, state, err)
	}
	return nil
}

// setInbox ends a row that is still new; its caller records the change. The state in the WHERE clause is what keeps two turns from answering one message.
func setInbox(w *writer, id int64, state mailbox.InboxState, note string) error {
	return w.changeOne("UPDATE inbox SET state = ?, note = ? WHERE id = ? AND state = 'new'", state, note, id)
}

const inboxColumns = "id, message, state, note"

func scanInbox(scan func(...any) error) (mailbox.InboxRow, error) {
	var r mailbox.InboxRow
	var body []byte
	if err := scan(&r.ID, &body, &r.State, &r.Note); err != nil {
		return r, err
	}
	return r, json.Unmarshal(body, &r.Message)
}

// list collects the rows of a query.
func list[T any](ctx context.Context, db Reads, scan func(func(...any) error) (T, error), query string, args ...any) ([]T, error) {
	return patiently(ctx, db, func() ([]T, error) {
		rows, err := db.Query(ctx, query, args...)
		return collect(rows, err, scan)
	})
}

func collect[T any](rows Rows, err error, scan func(func(...any) error) (T, error)) ([]T, error) {
	if err != nil {
		return nil, fmt.Errorf("read from the store: %w", err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows.Scan)
		if err != nil {
			return nil, fmt.Errorf("read from the store: %w", err)
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// one returns the only row of a query, or store.ErrNotFound.
func one[T any](ctx context.Context, db Reads, scan func(func(...any) error) (T, error), query string, args ...any) (T, error) {
	v, err := patiently(ctx, db, func() (T, error) { return scan(db.Row(ctx, query, args...).Scan) })
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNotFound
	}
	return v, err
}
