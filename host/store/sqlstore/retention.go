package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// pruneStep bounds the rows that one write deletes.
const pruneStep = 500

// prunings delete the expired rows of each table. ?1 is the time in nanoseconds, ?2 the least id of that time, and ?3 the number of
// rows.
var prunings = []struct {
	table string
	upTo  func(store.Retention) time.Time
	rows  string
}{
	{"results", results, "DELETE FROM results WHERE (session, id) IN (SELECT session, id FROM results WHERE at < ?1 ORDER BY at LIMIT ?3)"},
	{"summaries", results, `DELETE FROM summaries WHERE (session, id) IN (SELECT session, id FROM summaries AS s WHERE at < ?1 AND
		EXISTS (SELECT 1 FROM summaries AS later WHERE later.session = s.session AND later.id > s.id) LIMIT ?3)`},
	{"extractions", results, `DELETE FROM extractions WHERE turn IN (SELECT turn FROM extractions WHERE turn < ?2 ORDER BY turn LIMIT ?3)`},
	{"approvals", decisions, `DELETE FROM approvals WHERE id IN (SELECT id FROM approvals WHERE json_extract(CAST(body AS TEXT), '$.Turn') > '' AND
		json_extract(CAST(body AS TEXT), '$.Turn') < ?2 AND state <> 'pending' LIMIT ?3)`},
	{"decisions", decisions, "DELETE FROM decisions WHERE id IN (SELECT id FROM decisions WHERE at < ?1 ORDER BY at LIMIT ?3)"},
	{"decision_texts", decisions, `DELETE FROM decision_texts WHERE id IN (SELECT id FROM decision_texts AS t WHERE
		NOT EXISTS (SELECT 1 FROM decisions WHERE text = t.id) LIMIT ?3)`},
	{"audit", audit, "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ?1 ORDER BY at LIMIT ?3)"},
	{"usage", usages, "DELETE FROM usage WHERE id IN (SELECT id FROM usage WHERE at < ?1 ORDER BY at LIMIT ?3)"},
}

// monthly are the tables that Postgres keeps in a partition for each month.
var monthly = []string{"decisions", "audit", "usage"}

func results(r store.Retention) time.Time   { return r.Results }
func decisions(r store.Retention) time.Time { return r.Decisions }
func audit(r store.Retention) time.Time     { return r.Audit }
func usages(r store.Retention) time.Time    { return r.Usage }

// Prune implements store.Pruning.
func (s *Store) Prune(ctx context.Context, r store.Retention) (map[string]int, error) {
	gone := map[string]int{}
	if err := s.writer.write(ctx, owned(store.UpkeepOwner, pruneReplies)); err != nil {
		return nil, fmt.Errorf("prune replies: %w", err)
	}
	n, err := s.pruneSaid(ctx, r.Said)
	if n > 0 {
		gone["inbox"] = n
	}
	if err != nil {
		return gone, fmt.Errorf("prune messages that no turn has answered: %w", err)
	}
	if n, err := s.pruneBlobs(ctx, r.Blobs); err != nil {
		return gone, fmt.Errorf("prune blobs: %w", err)
	} else if n > 0 {
		gone["blobs"] = n
	}
	if err := s.addMonths(ctx); err != nil {
		return gone, err
	}
	for _, p := range prunings {
		upTo := p.upTo(r)
		if upTo.IsZero() {
			continue
		}
		if n, err := s.dropMonths(ctx, p.table, upTo); err != nil {
			return gone, err
		} else if n > 0 {
			gone[p.table] = n
		}
		for {
			n, err := s.pruneSome(ctx, p.rows, upTo)
			if err != nil {
				return gone, fmt.Errorf("prune %s: %w", p.table, err)
			}
			if n > 0 {
				gone[p.table] += n
			}
			if n < pruneStep {
				break
			}
		}
	}
	return gone, nil
}

// addMonths adds the partitions of this month and of the next ones.
func (s *Store) addMonths(ctx context.Context) error {
	if s.read.Dialect() != Postgres {
		return nil
	}
	err := s.writer.writeAlone(ctx, owned(store.UpkeepOwner, func(w *writer) error { return w.exec("SELECT add_months(?)", nanos(time.Now())) }))
	if err != nil {
		return fmt.Errorf("add partitions: %w", err)
	}
	return nil
}

// dropMonths drops the partitions of a table in which everything has expired, and returns how many rows they had. The rest is deleted by rows.
func (s *Store) dropMonths(ctx context.Context, table string, upTo time.Time) (int, error) {
	if s.read.Dialect() != Postgres || !slices.Contains(monthly, table) {
		return 0, nil
	}
	var n int
	err := s.writer.writeAlone(ctx, owned(store.UpkeepOwner, func(w *writer) error { return w.row("SELECT drop_months(?, ?)", []any{table, nanos(upTo)}, &n) }))
	if err != nil {
		return 0, fmt.Errorf("drop partitions of %s: %w", table, err) // the write may still be running, and uses n
	}
	return n, nil
}

func (s *Store) pruneSome(ctx context.Context, rows string, upTo time.Time) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n := 0
	err := s.writer.write(ctx, owned(store.UpkeepOwner, func(w *writer) error {
		changed, err := w.changed(rows, nanos(upTo), store.LeastID(upTo), pruneStep)
		n = int(changed)
		return err
	}))
	if err != nil {
		return 0, err // the write may still be running, and uses n
	}
	return n, nil
}
