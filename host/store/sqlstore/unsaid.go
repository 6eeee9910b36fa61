package sqlstore

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/store"
)

// unsaidMark is the mark of the last inbox row that pruneSaid has handled.
const unsaidMark = "unsaid"

// pruneSaid deletes the text of the messages before a time that no turn has answered, and the replies to them. It works through the
// inbox in order and remembers its position. A pending message stops it.
func (s *Store) pruneSaid(ctx context.Context, upTo time.Time) (gone int, err error) {
	if upTo.IsZero() {
		return 0, nil
	}
	mark, err := one(ctx, s.read, scanNumber, "SELECT upto FROM marks WHERE name = ?", unsaidMark)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	for {
		rows, err := list(ctx, s.read, scanInbox, "SELECT "+inboxColumns+" FROM inbox WHERE id > ? ORDER BY id LIMIT ?", mark, pruneStep)
		if err != nil {
			return gone, err
		}
		n := 0
		for n < len(rows) && rows[n].State != mailbox.InboxNew && rows[n].Message.ReceivedAt.Before(upTo) {
			n++
		}
		if n == 0 {
			return gone, nil
		}
		done, err := s.unsayOrders(ctx, rows[:n])
		gone += done
		if err != nil || n < pruneStep {
			return gone, err
		}
		mark = rows[n-1].ID
	}
}

// unsayOrders is a step of pruneSaid, for consecutive inbox rows.
func (s *Store) unsayOrders(ctx context.Context, rows []mailbox.InboxRow) (int, error) {
	first, last := rows[0], rows[len(rows)-1]
	oldest := time.Unix(0, math.MaxInt64)
	for _, r := range rows {
		if at := r.Message.ReceivedAt; at.Before(oldest) {
			oldest = at
		}
	}
	// A turn begins after its messages have arrived, unless the clock was set back.
	answered, err := list(ctx, s.read, scanNumber, `SELECT DISTINCT CAST(said.value AS BIGINT) FROM turns, json_each(CAST(turns.inbox AS TEXT)) AS said
		WHERE turns.id >= ? AND CAST(said.value AS BIGINT) BETWEEN ? AND ?`, store.LeastID(oldest.Add(-48*time.Hour)), first.ID, last.ID)
	if err != nil {
		return 0, err
	}
	by := map[int64]bool{}
	for _, id := range answered {
		by[id] = true
	}
	var ids []int64
	for _, r := range rows {
		if !by[r.ID] && r.State != mailbox.InboxNoted {
			ids = append(ids, r.ID)
		}
	}
	return len(ids), s.writer.write(ctx, owned(store.UpkeepOwner, func(w *writer) error {
		if err := w.unsay(ids); err != nil {
			return err
		}
		for _, id := range ids {
			if err := w.dropReplies(mailbox.CommandTurn(id)); err != nil {
				return err
			}
		}
		return w.exec("INSERT INTO marks (name, upto) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET upto = excluded.upto", unsaidMark, last.ID)
	}))
}

// dropReplies deletes the replies of a turn or a command, and records unsent ones for pruneReplies.
func (w *writer) dropReplies(turn string) error {
	err := w.exec("INSERT INTO leftovers (kind, name) SELECT DISTINCT 'replies', turn FROM outbox WHERE state IN ('pending', 'sending') AND "+
		"turn = ? ON CONFLICT DO NOTHING", turn)
	if err != nil {
		return err
	}
	return w.exec("DELETE FROM outbox WHERE state NOT IN ('pending', 'sending') AND turn = ?", turn)
}
