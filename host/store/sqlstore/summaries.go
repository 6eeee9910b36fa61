package sqlstore

import (
	"context"
	"encoding/json"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
)

func (w *writer) putSummary(s turnlog.Summary, labels []byte) error {
	return w.exec(`INSERT INTO summaries (session, id, through, turns, text, labels, made_in, tokens, cost, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		s.Session, s.ID, s.Through, s.Turns, s.Text, labels, s.By, s.Tokens, s.CostUSD, nanos(s.At))
}

// LatestSummary implements turnlog.Summaries.
func (s *Store) LatestSummary(ctx context.Context, session message.SessionKey) (turnlog.Summary, error) {
	return latestSummary(ctx, s.read, session)
}

func latestSummary(ctx context.Context, db Reads, session message.SessionKey) (turnlog.Summary, error) {
	return one(ctx, db, func(scan func(...any) error) (turnlog.Summary, error) {
		var v turnlog.Summary
		var labels []byte
		var at int64
		err := scan(&v.Session, &v.ID, &v.Through, &v.Turns, &v.Text, &labels, &v.By, &v.Tokens, &v.CostUSD, &at)
		if err != nil {
			return v, err
		}
		v.At = instant(at)
		return v, json.Unmarshal(labels, &v.Labels)
	}, `SELECT session, id, through, turns, text, labels, made_in, tokens, cost, at FROM summaries WHERE session = ?
		ORDER BY id DESC LIMIT 1`, session)
}

// TranscriptAfter implements turnlog.Summaries.
func (s *Store) TranscriptAfter(ctx context.Context, session message.SessionKey, turn string, turns int) ([]turnlog.Step, error) {
	return list(ctx, s.read, scanStep, `SELECT turn, seq, kind, data, at FROM steps WHERE turn IN
		(SELECT id FROM turns WHERE session = ? AND id > ? AND EXISTS (SELECT 1 FROM steps WHERE turn = turns.id) ORDER BY id DESC LIMIT ?)
		ORDER BY turn, seq`, session, turn, turns)
}

// KeptResult implements turnlog.Results.
func (s *Store) KeptResult(ctx context.Context, session message.SessionKey, id string) (turnlog.KeptResult, error) {
	return one(ctx, s.read, func(scan func(...any) error) (turnlog.KeptResult, error) {
		var v turnlog.KeptResult
		var labels []byte
		var at int64
		if err := scan(&v.Session, &v.ID, &v.Tool, &v.Text, &labels, &at); err != nil {
			return v, err
		}
		v.At = instant(at)
		return v, json.Unmarshal(labels, &v.Labels)
	}, "SELECT session, id, tool, text, labels, at FROM results WHERE session = ? AND id = ?", session, id)
}

// besides are the encoded parts of a commit besides the turn and its steps.
type besides struct {
	summary []byte   // labels
	results [][]byte // labels
}

func encodeBesides(c turnlog.Commit) (b besides, err error) {
	if c.Summary != nil {
		if b.summary, err = jsonform.Marshal(c.Summary.Labels); err != nil {
			return b, err
		}
	}
	for _, r := range c.Results {
		labels, err := jsonform.Marshal(r.Labels)
		if err != nil {
			return b, err
		}
		b.results = append(b.results, labels)
	}
	return b, nil
}

// commitBesides writes the parts of a commit that are not steps.
func commitBesides(w *writer, c turnlog.Commit, b besides) error {
	if c.Summary != nil {
		if err := w.putSummary(*c.Summary, b.summary); err != nil {
			return err
		}
	}
	for i, r := range c.Results {
		if err := w.exec("INSERT INTO results (session, id, tool, text, labels, at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			r.Session, r.ID, r.Tool, r.Text, b.results[i], nanos(r.At)); err != nil {
			return err
		}
		if err := w.exec("DELETE FROM results WHERE session = ?1 AND id <= (SELECT id FROM results WHERE session = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
			r.Session, turnlog.MaxResults); err != nil {
			return err
		}
	}
	if c.Extract {
		return w.exec("INSERT INTO extractions (turn) VALUES (?) ON CONFLICT DO NOTHING", c.Turn.ID)
	}
	return nil
}
