package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// CommitTurn implements turnlog.Turns.
func (s *Store) CommitTurn(ctx context.Context, c turnlog.Commit) error {
	p, err := encodeCommit(c)
	if err != nil {
		return fmt.Errorf("commit turn %s: %w", c.Turn.ID, err)
	}
	if err := s.writer.write(ctx, func(w *writer) error { return commitTurn(w, c, p) }); err != nil {
		return fmt.Errorf("commit turn %s: %w", c.Turn.ID, err)
	}
	return nil
}

// encoded are the JSON columns of a commit, made before the writer is asked, to shorten the write.
type encoded struct {
	scope, inbox []byte
	replies      [][]byte
	besides      besides
	said         []saidText
}

func encodeCommit(c turnlog.Commit) (encoded, error) {
	var e encoded
	var err error
	if e.scope, err = jsonform.Marshal(c.Turn.Conversation); err != nil {
		return e, err
	}
	if e.inbox, err = jsonform.Marshal(c.Turn.Inbox); err != nil {
		return e, err
	}
	for _, r := range c.Replies {
		b, err := jsonform.Marshal(r)
		if err != nil {
			return e, err
		}
		e.replies = append(e.replies, b)
	}
	if e.said, err = saidIn(c.Turn, c.Steps); err != nil {
		return e, err
	}
	e.besides, err = encodeBesides(c)
	return e, err
}

func commitTurn(w *writer, c turnlog.Commit, e encoded) error {
	if err := w.owns(store.ConversationOwner(c.Turn.ConversationKey())); err != nil {
		return err
	}
	if err := putTurn(w, c.Turn, e); err != nil {
		return err
	}
	added := 0
	insert := func(query string, args ...any) error {
		n, err := w.changed(query, args...)
		added += int(n)
		return err
	}
	err := insertRows(insert, "INSERT OR FAIL INTO steps (turn, seq, kind, data, at) VALUES %s ON CONFLICT DO NOTHING", "(?, ?, ?, ?, ?)", c.Steps,
		func(s turnlog.Step) []any { return []any{c.Turn.ID, s.Seq, s.Kind, []byte(s.Data), s.At.UnixNano()} })
	if err != nil {
		return err
	}
	if added != len(c.Steps) {
		return fmt.Errorf("a step from %d on exists already: %w", c.Steps[0].Seq, store.ErrConflict)
	}
	w.touchConversation(c.Turn.ConversationKey(), c.Turn.Sender)
	w.say(e.said)
	for i, r := range c.Replies {
		if err := w.exec("INSERT INTO outbox (key, turn, reply, state) VALUES (?, ?, ?, 'pending')", r.Key, c.Turn.ID, e.replies[i]); err != nil {
			return err
		}
		if err := w.poke(store.SignalWork, store.ChannelOwner(r.Channel)); err != nil {
			return err
		}
	}
	w.addDecisions(c.Turn.ID, c.Decisions)
	w.addUsage(c.Usage)
	if err := commitBesides(w, c, e.besides); err != nil {
		return err
	}
	for _, id := range c.Told {
		if err := toldOf(w, id); err != nil {
			return err
		}
	}
	if c.Turn.State == turnlog.TurnRunning {
		return nil
	}
	for _, id := range c.Turn.Inbox {
		if err := setInbox(w, id, c.InboxState, ""); err != nil {
			return fmt.Errorf("inbox row %d was answered before: %w", id, err)
		}
	}
	return nil
}

func toldOf(w *writer, id int64) error {
	return w.exec("UPDATE inbox SET state = 'done' WHERE id = ? AND state = 'noted'", id)
}

// putTurn inserts a turn or updates a running one, and counts a new one in its session.
func putTurn(w *writer, t turnlog.Turn, e encoded) error {
	n, err := w.changed(`INSERT INTO turns (id, session, agent, channel, conversation, place, sender, inbox, state, error, started, ended,
			parent, parent_call, background)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		t.ID, t.Session, t.Agent, t.Channel, t.Conversation.ID, e.scope, t.Sender, e.inbox, t.State, t.Error, nanos(t.Started), nanos(t.Ended),
		t.Parent, t.ParentCall, t.Background)
	if err != nil {
		return err
	}
	if n == 1 && t.Parent != "" {
		return nil // its session belongs to another one
	}
	if n == 1 {
		return w.exec(`INSERT INTO sessions (key, agent, turns, last) VALUES (?, ?, 1, ?)
			ON CONFLICT (key) DO UPDATE SET turns = sessions.turns + 1, last = excluded.last`, t.Session, t.Agent, nanos(t.Started))
	}
	n, err = w.changed("UPDATE turns SET inbox = ?, state = ?, error = ?, ended = ? WHERE id = ? AND state = 'running'",
		e.inbox, t.State, t.Error, nanos(t.Ended), t.ID)
	if err == nil && n != 1 {
		err = fmt.Errorf("turn has ended: %w", store.ErrConflict)
	}
	return err
}

const turnColumns = "id, session, agent, channel, place, sender, inbox, state, error, started, ended, parent, parent_call, background"

// RunningTurns implements turnlog.Turns.
func (s *Store) RunningTurns(ctx context.Context) ([]turnlog.Turn, error) {
	return list(ctx, s.read, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE state = 'running' ORDER BY id")
}

// RunningIn implements turnlog.Turns.
func (s *Store) RunningIn(ctx context.Context, session message.SessionKey, turns int) ([]string, error) {
	return list(ctx, s.read, func(scan func(...any) error) (id string, err error) {
		err = scan(&id)
		return id, err
	}, `SELECT id FROM (SELECT id, state FROM turns WHERE session = ? ORDER BY id DESC LIMIT ?) AS latest
		WHERE state = 'running' ORDER BY id`, session, turns)
}

// History implements turnlog.Turns.
func (s *Store) History(ctx context.Context, channel, conversation string, turns int) ([]turnlog.Turn, error) {
	ts, err := list(ctx, s.read, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE channel = ? AND conversation = ? AND parent = '' ORDER BY id DESC LIMIT ?",
		channel, conversation, turns)
	slices.Reverse(ts)
	return ts, err
}

// HistoryUpTo implements turnlog.Turns.
func (s *Store) HistoryUpTo(ctx context.Context, channel, conversation, turn string, turns int) ([]turnlog.Turn, error) {
	ts, err := list(ctx, s.read, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE channel = ? AND conversation = ? AND id <= ? AND parent = '' ORDER BY id DESC LIMIT ?",
		channel, conversation, turn, turns)
	slices.Reverse(ts)
	return ts, err
}

// FirstTurns implements turnlog.Turns.
func (s *Store) FirstTurns(ctx context.Context, channel, conversation string, turns int) ([]turnlog.Turn, error) {
	return list(ctx, s.read, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE channel = ? AND conversation = ? AND parent = '' ORDER BY id LIMIT ?",
		channel, conversation, turns)
}

// Steps implements turnlog.Turns.
func (s *Store) Steps(ctx context.Context, turn string) ([]turnlog.Step, error) {
	return list(ctx, s.read, scanStep, "SELECT turn, seq, kind, data, at FROM steps WHERE turn = ? ORDER BY seq", turn)
}

// Transcript implements turnlog.Turns.
func (s *Store) Transcript(ctx context.Context, session string, turns int) ([]turnlog.Step, error) {
	return list(ctx, s.read, scanStep, `SELECT turn, seq, kind, data, at FROM steps WHERE turn IN
		(SELECT id FROM turns WHERE session = ? AND EXISTS (SELECT 1 FROM steps WHERE turn = turns.id) ORDER BY id DESC LIMIT ?)
		ORDER BY turn, seq`, session, turns)
}

// Sessions implements turnlog.Turns.
func (s *Store) Sessions(ctx context.Context, limit int) ([]turnlog.Session, error) {
	return list(ctx, s.read, scanSession, "SELECT key, agent, turns, last FROM sessions ORDER BY last DESC, key LIMIT ?", limit)
}

// SessionsOn implements turnlog.Lists.
func (s *Store) SessionsOn(ctx context.Context, channels []string, limit int) ([]turnlog.Session, error) {
	var parts []string
	var args []any
	for _, channel := range channels {
		parts = append(parts, "SELECT key, agent, turns, last FROM sessions WHERE key >= ? AND key < ?")
		args = append(args, channel+":", channel+";") // the next letter
	}
	if len(parts) == 0 {
		return nil, nil
	}
	return list(ctx, s.read, scanSession, strings.Join(parts, " UNION ALL ")+" ORDER BY last DESC, key LIMIT ?", append(args, limit)...)
}

// Session implements turnlog.Turns.
func (s *Store) Session(ctx context.Context, key message.SessionKey) (turnlog.Session, error) {
	return one(ctx, s.read, scanSession, "SELECT key, agent, turns, last FROM sessions WHERE key = ?", key)
}

func scanSession(scan func(...any) error) (turnlog.Session, error) {
	var v turnlog.Session
	var last int64
	err := scan(&v.Key, &v.Agent, &v.Turns, &last)
	v.Last = instant(last)
	return v, err
}

func scanTurn(scan func(...any) error) (turnlog.Turn, error) {
	var t turnlog.Turn
	var scope, inbox []byte
	var started, ended int64
	if err := scan(&t.ID, &t.Session, &t.Agent, &t.Channel, &scope, &t.Sender, &inbox, &t.State, &t.Error, &started, &ended,
		&t.Parent, &t.ParentCall, &t.Background); err != nil {
		return t, err
	}
	t.Started, t.Ended = instant(started), instant(ended)
	var where message.Conversation
	if err := json.Unmarshal(scope, &where); err != nil {
		return t, err
	}
	t.Conversation = where
	return t, json.Unmarshal(inbox, &t.Inbox)
}

func scanStep(scan func(...any) error) (turnlog.Step, error) {
	var v turnlog.Step
	var at int64
	var data []byte
	err := scan(&v.Turn, &v.Seq, &v.Kind, &data, &at)
	v.Data, v.At = data, instant(at)
	return v, err
}

// nanos stores a time as nanoseconds since 1970, the zero time as 0.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func instant(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
