package sqlstore

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/flynnhost/flynn/host/policy/journal"
)

// Bounds of the log of shadow policies, at most about 50 MB.
const (
	keptShadow    = 100_000 // differences
	keptShadowFor = 30 * 24 * time.Hour
)

// AddShadow implements journal.Shadows.
func (s *Store) AddShadow(ctx context.Context, differences []journal.ShadowDifference, counts []journal.ShadowCount) error {
	err := s.writer.write(ctx, func(w *writer) error {
		for _, d := range differences {
			err := w.exec(`INSERT INTO shadow_differences (at, policy, digest, file, against, kind, was, was_why, now, now_why, channel, sender, tool)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				nanos(d.At), d.Policy, d.Digest, d.File, d.Against, d.Kind, d.Was, d.WasWhy, d.Is, d.IsWhy, d.Channel, d.Sender, d.Tool)
			if err != nil {
				return err
			}
		}
		for _, c := range counts {
			err := w.exec(`INSERT INTO shadow_counts (day, policy, digest, file, against, outcome, count) VALUES (?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT (day, policy, digest, against, outcome) DO UPDATE SET count = shadow_counts.count + excluded.count`, nanos(dayOf(c.Day)), c.Policy, c.Digest, c.File, c.Against, c.Outcome, c.Count)
			if err != nil {
				return err
			}
		}
		return forgetShadow(w)
	})
	if err != nil {
		return fmt.Errorf("add to the log of shadow policies: %w", err)
	}
	return nil
}

// forgetShadow deletes what is much older than the newest row, and the oldest rows if there are too many.
func forgetShadow(w *writer) error {
	if err := w.exec(`DELETE FROM shadow_differences WHERE id <= (SELECT max(id) FROM shadow_differences) - ?`, keptShadow); err != nil {
		return err
	}
	month := int64(keptShadowFor)
	if err := w.exec(`DELETE FROM shadow_differences WHERE at < (SELECT at FROM shadow_differences ORDER BY id DESC LIMIT 1) - ?`, month); err != nil {
		return err
	}
	return w.exec(`DELETE FROM shadow_counts WHERE day < (SELECT max(day) FROM shadow_counts) - ?`, month)
}

// ShadowCounts implements journal.Shadows.
func (s *Store) ShadowCounts(ctx context.Context, f journal.ShadowFilter) ([]journal.ShadowCount, error) {
	return shadowCounts(ctx, s.read, f)
}

func shadowCounts(ctx context.Context, db Reads, f journal.ShadowFilter) ([]journal.ShadowCount, error) {
	return list(ctx, db, scanShadowCount, `SELECT day, policy, digest, file, against, outcome, count FROM shadow_counts
		WHERE (?1 = '' OR policy = ?1) AND day >= ?2 ORDER BY day, policy, digest, against, outcome`, f.Policy, nanos(dayOf(f.Since)))
}

// ShadowDifferences implements journal.Shadows.
func (s *Store) ShadowDifferences(ctx context.Context, f journal.ShadowFilter) iter.Seq2[journal.ShadowDifference, error] {
	return shadowDifferences(ctx, s.read, f)
}

func shadowDifferences(ctx context.Context, db Reads, f journal.ShadowFilter) iter.Seq2[journal.ShadowDifference, error] {
	return func(yield func(journal.ShadowDifference, error) bool) {
		for after := int64(-1); ; {
			rows, err := list(ctx, db, scanShadowDifference, `SELECT id, at, policy, digest, file, against, kind, was, was_why, now, now_why, channel, sender, tool
				FROM shadow_differences WHERE (?1 = '' OR policy = ?1) AND at >= ?2 AND id > ?3 ORDER BY id LIMIT ?4`,
				f.Policy, nanos(f.Since), after, decisionBatch)
			if err != nil {
				yield(journal.ShadowDifference{}, err)
				return
			}
			for _, r := range rows {
				if !yield(r.ShadowDifference, nil) {
					return
				}
				after = r.id
			}
			if len(rows) < decisionBatch {
				return
			}
		}
	}
}

// dayOf returns the beginning of a day, UTC.
func dayOf(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(24 * time.Hour)
}

func scanShadowCount(scan func(...any) error) (journal.ShadowCount, error) {
	var c journal.ShadowCount
	var day int64
	err := scan(&day, &c.Policy, &c.Digest, &c.File, &c.Against, &c.Outcome, &c.Count)
	c.Day = instant(day)
	return c, err
}

// shadowRow is a difference with its position in the table.
type shadowRow struct {
	id int64
	journal.ShadowDifference
}

func scanShadowDifference(scan func(...any) error) (shadowRow, error) {
	var r shadowRow
	var at int64
	err := scan(&r.id, &at, &r.Policy, &r.Digest, &r.File, &r.Against, &r.Kind, &r.Was, &r.WasWhy, &r.Is, &r.IsWhy, &r.Channel, &r.Sender, &r.Tool)
	r.At = instant(at)
	return r, err
}
