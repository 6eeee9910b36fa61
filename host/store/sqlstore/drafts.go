package sqlstore

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/channel/mailbox"
)

// PutDraft implements mailbox.Drafts.
func (s *Store) PutDraft(ctx context.Context, d mailbox.Draft) error {
	err := s.writer.write(ctx, func(w *writer) error {
		if err := w.ownsRow(channelOf, whereOfInbox, d.Inbox); err != nil {
			return err
		}
		return w.exec(`INSERT INTO drafts (inbox, key, message_id, sent_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (inbox) DO UPDATE SET key = excluded.key, message_id = excluded.message_id, sent_at = excluded.sent_at`,
			d.Inbox, d.Key, d.MessageID, nanos(d.SentAt))
	})
	if err != nil {
		return fmt.Errorf("keep draft %s: %w", d.Key, err)
	}
	return nil
}

// DropDraft implements mailbox.Drafts.
func (s *Store) DropDraft(ctx context.Context, inbox int64) error {
	err := s.writer.write(ctx, func(w *writer) error {
		if err := w.ownsRow(channelOf, whereOfInbox, inbox); err != nil {
			return err
		}
		return w.exec("DELETE FROM drafts WHERE inbox = ?", inbox)
	})
	if err != nil {
		return fmt.Errorf("forget the draft of an answer to %d: %w", inbox, err)
	}
	return nil
}

// OpenDrafts implements mailbox.Drafts.
func (s *Store) OpenDrafts(ctx context.Context) ([]mailbox.Draft, error) {
	drafts, err := list(ctx, s.read, scanDraft, "SELECT inbox, key, message_id, sent_at FROM drafts ORDER BY inbox")
	if err != nil || len(drafts) == 0 {
		return nil, err
	}
	live := map[int64]bool{}
	pending, err := s.PendingInbox(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range pending { // before the outbox: what is answered meanwhile is in one of the two
		live[r.ID] = true
	}
	unsent, err := s.UnsentOutbox(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range unsent {
		live[r.Reply.Answers] = true
	}
	var open []mailbox.Draft
	for _, d := range drafts {
		if live[d.Inbox] {
			open = append(open, d)
		} else if err := s.DropDraft(ctx, d.Inbox); err != nil {
			return nil, err
		}
	}
	return open, nil
}

func scanDraft(scan func(...any) error) (mailbox.Draft, error) {
	var d mailbox.Draft
	var at int64
	err := scan(&d.Inbox, &d.Key, &d.MessageID, &at)
	d.SentAt = instant(at)
	return d, err
}
