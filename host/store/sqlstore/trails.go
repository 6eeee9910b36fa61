package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/store"
)

// Trail implements turnlog.Trails.
func (s *Store) Trail(ctx context.Context, id string) (turnlog.Trail, error) {
	return readTrail(ctx, s.read, id)
}

// LastMessage implements turnlog.Trails.
func (s *Store) LastMessage(ctx context.Context, channel, conversation string) (mailbox.InboxRow, error) {
	return lastMessage(ctx, s.read, channel, conversation)
}

// Trail implements the method of turnlog.Trails for reading.
func (r *Reader) Trail(ctx context.Context, id string) (turnlog.Trail, error) {
	if err := r.hasTrails(); err != nil {
		return turnlog.Trail{}, err
	}
	return readTrail(ctx, r.db, id)
}

// LastMessage implements the method of turnlog.Trails for reading.
func (r *Reader) LastMessage(ctx context.Context, channel, conversation string) (mailbox.InboxRow, error) {
	if err := r.hasTrails(); err != nil {
		return mailbox.InboxRow{}, err
	}
	return lastMessage(ctx, r.db, channel, conversation)
}

// trailsVersion is the first schema version with all that a trail consists of.
const trailsVersion = 12

func (r *Reader) hasTrails() error {
	switch {
	case r.db == nil:
		return store.ErrNotFound
	case r.version < trailsVersion:
		return errors.New("the store was written by an older Flynn: start this one once to update it")
	}
	return nil
}

// readTrail reads in one transaction, so that all parts show the same state of a running turn.
func readTrail(ctx context.Context, db Reads, id string) (turnlog.Trail, error) {
	tx, end, err := db.Snapshot(ctx)
	if err != nil {
		return turnlog.Trail{}, fmt.Errorf("read trail: %w", err)
	}
	defer end()
	t, err := trail(ctx, tx, id)
	if err != nil {
		return turnlog.Trail{}, fmt.Errorf("read trail of %.64q: %w", id, err)
	}
	return t, nil
}

func trail(ctx context.Context, q Reads, id string) (turnlog.Trail, error) {
	r := &trailReader{ctx: ctx, q: q}
	var turn turnlog.Turn
	var err error
	if row, ok := mailbox.MessageRow(id); ok {
		turn, err = r.messageTurn(row)
	} else {
		turn, err = one(ctx, q, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE id = ?", id)
	}
	if err != nil {
		return turnlog.Trail{}, err
	}
	if turn.ID == "" {
		r.trail.Decisions = rows(r, scanDecision, trailDecisions, id)
	} else {
		r.turn(turn)
	}
	return r.trail, r.err
}

// trailReader collects a trail and keeps the first error.
type trailReader struct {
	ctx   context.Context
	q     Reads
	trail turnlog.Trail
	err   error
}

// messageTurn returns the last turn that took a message, or the zero Turn.
func (r *trailReader) messageTurn(id int64) (turnlog.Turn, error) {
	row, err := one(r.ctx, r.q, scanInbox, "SELECT "+inboxColumns+" FROM inbox WHERE id = ?", id)
	if err != nil {
		return turnlog.Turn{}, err
	}
	turn, err := one(r.ctx, r.q, scanTurn, "SELECT "+turnColumns+` FROM turns WHERE channel = ? AND conversation = ?
		AND EXISTS (SELECT 1 FROM json_each(CAST(turns.inbox AS TEXT)) WHERE CAST(value AS BIGINT) = ?) ORDER BY id DESC LIMIT 1`,
		row.Message.Channel, row.Message.Conversation.ID, id)
	if errors.Is(err, store.ErrNotFound) {
		r.trail.Inbox = []mailbox.InboxRow{row}
		return turnlog.Turn{}, nil
	}
	return turn, err
}

// trailDecisions leaves out columns that are large and useless to people.
const trailDecisions = `SELECT id, at, kind, turn, policy, digest, file, NULL, NULL, NULL, NULL, raw, rule, answer, reason, error, fuel, nanos
	FROM decisions WHERE turn = ? ORDER BY id`

func (r *trailReader) turn(turn turnlog.Turn) {
	t := &r.trail
	t.Turn = turn
	for _, id := range turn.Inbox[:min(len(turn.Inbox), turnlog.MaxTrail)] {
		t.Inbox = append(t.Inbox, rows(r, scanInbox, "SELECT "+inboxColumns+" FROM inbox WHERE id = ?", id)...)
	}
	t.Steps = rows(r, scanStep, "SELECT turn, seq, kind, data, at FROM steps WHERE turn = ? ORDER BY seq", turn.ID)
	t.Decisions = rows(r, scanDecision, trailDecisions, turn.ID)
	t.Usage = rows(r, scanUsage, `SELECT id, at, day, turn, step, session, sender, agent, task, tier, provider, model, attempt, failure,
		input, output, cache_read, cache_write, cost, estimated FROM usage WHERE turn = ? ORDER BY id`, turn.ID)
	t.Approvals = rows(r, scanApproval, `SELECT body FROM approvals WHERE json_extract(CAST(body AS TEXT), '$.Turn') = ?
		ORDER BY json_extract(CAST(body AS TEXT), '$.Created')`, turn.ID)
	t.Audit = rows(r, scanAudit, `SELECT id, at, kind, subject, actor, session, agent, tool, turn, detail FROM audit
		WHERE turn = ? AND turn <> '' ORDER BY id`, turn.ID)
	t.Replies = rows(r, scanOutbox, "SELECT "+outboxColumns+" FROM outbox WHERE turn = ? ORDER BY id", turn.ID)
	t.Children = rows(r, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE parent = ? AND parent <> '' ORDER BY id", turn.ID)
}

// rows returns the first rows of a query.
func rows[T any](r *trailReader, scan func(func(...any) error) (T, error), query string, args ...any) []T {
	if r.err != nil {
		return nil
	}
	found, err := list(r.ctx, r.q, scan, query+fmt.Sprintf(" LIMIT %d", turnlog.MaxTrail+1), args...)
	r.err = err
	if len(found) > turnlog.MaxTrail {
		r.trail.Cut, found = true, found[:turnlog.MaxTrail]
	}
	return found
}

// lookBackMessages bounds the latest messages that are searched for one of a conversation.
const lookBackMessages = 10_000

func lastMessage(ctx context.Context, db Reads, channel, conversation string) (mailbox.InboxRow, error) {
	return one(ctx, db, scanInbox, "SELECT "+inboxColumns+` FROM (SELECT * FROM inbox ORDER BY id DESC LIMIT ?1) AS latest
		WHERE (?2 = '' OR channel = ?2) AND (?3 = '' OR json_extract(CAST(message AS TEXT), '$.conversation.id') = ?3) ORDER BY id DESC LIMIT 1`,
		lookBackMessages, channel, conversation)
}
