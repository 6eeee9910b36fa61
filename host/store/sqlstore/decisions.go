package sqlstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"iter"
	"math"
	"strings"

	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
)

// AddDecisions implements journal.Decisions.
func (s *Store) AddDecisions(ctx context.Context, ds []journal.Decision) error {
	err := s.writer.write(ctx, func(w *writer) error {
		w.addDecisions("", ds)
		return nil
	})
	if err != nil {
		return fmt.Errorf("add decisions: %w", err)
	}
	return nil
}

// addDecisions records decisions with the transaction. If turn is set, it replaces theirs.
func (w *writer) addDecisions(turn string, ds []journal.Decision) {
	for _, d := range ds {
		d.Turn = cmp.Or(turn, d.Turn)
		w.end.decisions = append(w.end.decisions, d)
	}
	if len(ds) > 0 {
		w.touch(store.Decisions, "", "")
	}
}

func (w *writer) putDecisions(ds []journal.Decision) error {
	for _, d := range ds {
		if d.Text == "" {
			continue
		}
		if err := w.exec(`INSERT INTO decision_texts (digest, body) VALUES (?, ?) ON CONFLICT DO NOTHING`, textDigest(d.Text), d.Text); err != nil {
			return err
		}
	}
	return insertRows(w.exec, `INSERT OR FAIL INTO decisions (at, kind, turn, policy, digest, file, frame, text, args, calls, raw, rule, answer, reason, error, fuel, nanos)
		VALUES %s`, "(?, ?, ?, ?, ?, ?, ?, (SELECT id FROM decision_texts WHERE digest = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?)", ds,
		func(d journal.Decision) []any {
			return []any{
				nanos(d.At), d.Kind, d.Turn, d.Policy, d.Digest, d.File, d.Frame, textDigest(d.Text), []byte(d.Args), []byte(d.Calls), d.Raw, int64(d.Rule),
				d.Answer, d.Reason, d.Error, d.Fuel, d.Nanos,
			}
		})
}

// textDigest is the key of a text, which is stored once; nil for an empty one.
func textDigest(text string) []byte {
	if text == "" {
		return nil
	}
	digest := sha256.Sum256([]byte(text))
	return digest[:]
}

// ListDecisions implements journal.Decisions.
func (s *Store) ListDecisions(ctx context.Context, f journal.DecisionFilter) ([]journal.Decision, error) {
	if f.Limit <= 0 {
		f.Limit = 1000
	}
	where, args := decisionsWhere(f)
	return list(ctx, s.read, scanDecision, decisionColumns(f, false)+where+" ORDER BY d.id LIMIT ?", append(args, f.Limit)...)
}

// EachDecision implements journal.Decisions.
func (s *Store) EachDecision(ctx context.Context, f journal.DecisionFilter) iter.Seq2[journal.Decision, error] {
	return eachDecision(ctx, s.read, f, false)
}

// LatestDecisions implements journal.Decisions.
func (s *Store) LatestDecisions(ctx context.Context, f journal.DecisionFilter, before int64) ([]journal.Listed, error) {
	if f.Limit <= 0 {
		f.Limit = 1000
	}
	if before <= 0 {
		before = math.MaxInt64
	}
	where, args := decisionsWhere(f)
	return list(ctx, s.read, scanListed, decisionSelect(f)+`, coalesce(u.agent, ''), coalesce(u.channel, ''), coalesce(u.sender, '')
		FROM decisions d LEFT JOIN decision_texts t ON t.id = d.text LEFT JOIN turns u ON u.id = d.turn
		WHERE `+where+" AND d.id < ? ORDER BY d.id DESC LIMIT ?", append(args, before, f.Limit)...)
}

func scanListed(scan func(...any) error) (journal.Listed, error) {
	var l journal.Listed
	var err error
	l.Decision, err = scanDecision(func(dest ...any) error { return scan(append(dest, &l.Agent, &l.Channel, &l.Sender)...) })
	return l, err
}

// decisionBatch bounds the decisions read by one query. A long read transaction would keep a running host from emptying its write-ahead
// log.
const decisionBatch = 512

// eachDecision reads in the order of (at, id), from an index.
func eachDecision(ctx context.Context, db Reads, f journal.DecisionFilter, old bool) iter.Seq2[journal.Decision, error] {
	return func(yield func(journal.Decision, error) bool) {
		where, args := decisionsWhere(f)
		query := decisionColumns(f, old) + where + " AND (d.at, d.id) > (?, ?) ORDER BY d.at, d.id LIMIT ?"
		at, id := nanos(f.Since), int64(-1)
		if f.Since.IsZero() {
			at = math.MinInt64
		}
		for left := f.Limit; ; left -= decisionBatch {
			batch := decisionBatch
			if f.Limit > 0 {
				batch = min(batch, left)
			}
			ds, err := list(ctx, db, scanDecision, query, append(args[:len(args):len(args)], at, id, batch)...)
			if err != nil {
				yield(journal.Decision{}, err)
				return
			}
			for _, d := range ds {
				if !yield(d, nil) {
					return
				}
			}
			if len(ds) < batch || f.Limit > 0 && left <= decisionBatch {
				return
			}
			last := &ds[len(ds)-1]
			at, id = nanos(last.At), last.ID
		}
	}
}

// decisionColumns returns the beginning of a query, for the present table or for that from before 0003_replay.sql.
func decisionColumns(f journal.DecisionFilter, old bool) string {
	if old {
		return `SELECT d.id, d.at, d.kind, d.turn, d.policy, d.digest, '', d.frame, NULL, NULL, ` + callsColumn(f) + `, 0, 0, d.answer, d.reason, d.error,
			d.fuel, d.nanos FROM decisions d WHERE `
	}
	return decisionSelect(f) + " FROM decisions d LEFT JOIN decision_texts t ON t.id = d.text WHERE "
}

func decisionSelect(f journal.DecisionFilter) string {
	return `SELECT d.id, d.at, d.kind, d.turn, d.policy, d.digest, d.file, d.frame, t.body, d.args, ` + callsColumn(f) + `, d.raw, d.rule, d.answer, d.reason,
		d.error, d.fuel, d.nanos`
}

func callsColumn(f journal.DecisionFilter) string {
	if f.WithoutCalls {
		return "NULL"
	}
	return "d.calls"
}

// decisionsWhere names only the columns of the filter, so that the planner uses the index.
func decisionsWhere(f journal.DecisionFilter) (string, []any) {
	terms, args := []string{"TRUE"}, []any{}
	add := func(term string, arg any) { terms, args = append(terms, term), append(args, arg) }
	if f.ID != 0 {
		add("d.id = ?", f.ID)
	}
	if f.Policy != "" {
		add("d.policy = ?", f.Policy)
	}
	if f.Kind != "" {
		add("d.kind = ?", f.Kind)
	}
	if f.Turn != "" {
		add("d.turn = ?", f.Turn)
	}
	if !f.Since.IsZero() {
		add("d.at >= ?", nanos(f.Since))
	}
	if !f.Until.IsZero() {
		add("d.at < ?", nanos(f.Until))
	}
	return strings.Join(terms, " AND "), args
}

func scanDecision(scan func(...any) error) (journal.Decision, error) {
	var d journal.Decision
	var at, rule int64
	var text sql.NullString
	var args, calls []byte
	err := scan(&d.ID, &at, &d.Kind, &d.Turn, &d.Policy, &d.Digest, &d.File, &d.Frame, &text, &args, &calls, &d.Raw, &rule, &d.Answer, &d.Reason, &d.Error,
		&d.Fuel, &d.Nanos)
	d.At, d.Text, d.Args, d.Calls, d.Rule = instant(at), text.String, args, calls, uint32(rule)
	return d, err
}
