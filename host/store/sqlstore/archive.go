package sqlstore

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// SessionTurns implements turnlog.Archive.
func (s *Store) SessionTurns(ctx context.Context, key message.SessionKey) ([]turnlog.Turn, error) {
	return list(ctx, s.read, scanTurn, sessionTurns, key)
}

const sessionTurns = "SELECT " + turnColumns + " FROM turns WHERE session = ? ORDER BY id"

// PutSession implements turnlog.Archive.
func (s *Store) PutSession(ctx context.Context, session turnlog.Session, turns []turnlog.SessionTurn, sum *turnlog.Summary) error {
	return s.PutSessions(ctx, []turnlog.WholeSession{{Session: session, Turns: turns, Summary: sum}})
}

// encodedSession is a session whose JSON is made.
type encodedSession struct {
	turnlog.WholeSession
	turns   []encoded
	besides besides
}

func encodeSession(s turnlog.WholeSession) (e encodedSession, err error) {
	e = encodedSession{WholeSession: s, turns: make([]encoded, len(s.Turns))}
	for i, t := range s.Turns {
		if e.turns[i], err = encodeCommit(turnlog.Commit{Turn: t.Turn, Steps: t.Steps}); err != nil {
			return e, err
		}
	}
	e.besides, err = encodeBesides(turnlog.Commit{Summary: s.Summary})
	return e, err
}

// PutSessions implements turnlog.Archive.
func (s *Store) PutSessions(ctx context.Context, list []turnlog.WholeSession) error {
	all := make([]encodedSession, len(list))
	for i, v := range list {
		var err error
		if all[i], err = encodeSession(v); err != nil {
			return fmt.Errorf("write session %s: %w", v.Session.Key, err)
		}
	}
	return s.writer.write(ctx, func(w *writer) error {
		for _, v := range all {
			if err := w.putSession(v); err != nil {
				return fmt.Errorf("write session %s: %w", v.Session.Key, err)
			}
		}
		return nil
	})
}

func (w *writer) putSession(v encodedSession) error {
	if err := vacant(w, v.Session.Key); err != nil {
		return err
	}
	if err := presentEpoch(w, v.Session.Key); err != nil {
		return err
	}
	for i, t := range v.Turns {
		if err := putNewTurn(w, t, v.turns[i]); err != nil {
			return err
		}
	}
	if err := commitBesides(w, turnlog.Commit{Summary: v.Summary}, v.besides); err != nil {
		return err
	}
	return w.exec(`INSERT INTO sessions (key, agent, turns, last) VALUES (?, ?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET turns = excluded.turns, last = excluded.last`,
		v.Session.Key, v.Session.Agent, v.Session.Turns, nanos(v.Session.Last))
}

// vacant refuses a session that exists or has been replaced by a later one.
func vacant(w *writer, key message.SessionKey) error {
	k := key.Parse()
	var there, now int
	if err := w.row("SELECT count(*) FROM sessions WHERE key = ?", []any{string(key)}, &there); err != nil {
		return err
	}
	if err := w.row("SELECT coalesce(max(epoch), 1) FROM places WHERE key = ?", []any{k.Scope}, &now); err != nil {
		return err
	}
	switch {
	case there > 0:
		return store.Conflict("it exists already; flynn session delete removes it")
	case now > k.Epoch:
		return store.Conflict(fmt.Sprintf("%s is at its session %d with agent %s, which has replaced it", k.Scope, now, k.Agent))
	}
	return nil
}

// presentEpoch makes the session's epoch the present one of its scope.
func presentEpoch(w *writer, key message.SessionKey) error {
	k := key.Parse()
	if k.Epoch == 1 {
		return nil
	}
	w.over = append(w.over, func() { w.scopes.changed(k.Scope) })
	return w.exec(`INSERT INTO places (key, epoch, began, why, agent, tier) VALUES (?, ?, 0, '', '', '')
		ON CONFLICT (key) DO UPDATE SET epoch = excluded.epoch`, k.Scope, k.Epoch)
}

func putNewTurn(w *writer, t turnlog.SessionTurn, e encoded) error {
	var there int
	if err := w.row("SELECT count(*) FROM turns WHERE id = ?", []any{t.Turn.ID}, &there); err != nil {
		return err
	}
	if there > 0 {
		return store.Conflict(fmt.Sprintf("turn %s exists already, in another session", t.Turn.ID))
	}
	return commitTurn(w, turnlog.Commit{Turn: t.Turn, Steps: t.Steps}, e)
}

// Sessions implements the method of turnlog.Turns for reading.
func (r *Reader) Sessions(ctx context.Context, limit int) ([]turnlog.Session, error) {
	if r.version == 0 {
		return nil, nil
	}
	return list(ctx, r.db, scanSession, "SELECT key, agent, turns, last FROM sessions ORDER BY last DESC, key LIMIT ?", limit)
}

// Session implements the method of turnlog.Turns for reading.
func (r *Reader) Session(ctx context.Context, key message.SessionKey) (turnlog.Session, error) {
	if r.version == 0 {
		return turnlog.Session{}, store.ErrNotFound
	}
	return one(ctx, r.db, scanSession, "SELECT key, agent, turns, last FROM sessions WHERE key = ?", key)
}

// SessionTurns implements the method of turnlog.Archive for reading.
func (r *Reader) SessionTurns(ctx context.Context, key message.SessionKey) ([]turnlog.Turn, error) {
	if r.version == 0 {
		return nil, nil
	}
	return list(ctx, r.db, scanTurn, sessionTurns, key)
}

// Steps implements the method of turnlog.Turns for reading.
func (r *Reader) Steps(ctx context.Context, turn string) ([]turnlog.Step, error) {
	if r.version == 0 {
		return nil, nil
	}
	return list(ctx, r.db, scanStep, "SELECT turn, seq, kind, data, at FROM steps WHERE turn = ? ORDER BY seq", turn)
}

// LatestSummary implements the method of turnlog.Summaries for reading.
func (r *Reader) LatestSummary(ctx context.Context, session message.SessionKey) (turnlog.Summary, error) {
	if r.version < notesVersion {
		return turnlog.Summary{}, store.ErrNotFound
	}
	return latestSummary(ctx, r.db, session)
}

// scopesVersion is the first schema version with conversation scopes.
const scopesVersion = 8

// Scope implements the method of turnlog.Scopes for reading.
func (r *Reader) Scope(ctx context.Context, key string) (turnlog.Scope, error) {
	if r.version < scopesVersion {
		return turnlog.Scope{Key: key, Epoch: 1}, nil
	}
	return readScope(ctx, r.db, key)
}
