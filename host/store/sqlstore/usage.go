package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/store"
)

// AddUsage implements usage.Log.
func (s *Store) AddUsage(ctx context.Context, us []usage.Row) error {
	if len(us) == 0 {
		return nil
	}
	err := s.writer.write(ctx, func(w *writer) error {
		w.addUsage(us)
		return nil
	})
	if err != nil {
		return fmt.Errorf("add usage: %w", err)
	}
	return nil
}

// addUsage records usage with the transaction.
func (w *writer) addUsage(us []usage.Row) {
	if len(us) > 0 {
		w.touch(store.Usage, "", "")
		w.end.usage = append(w.end.usage, us...)
	}
}

func (w *writer) putUsage(us []usage.Row) error {
	return insertRows(w.exec, `INSERT OR FAIL INTO usage (at, day, turn, step, session, sender, agent, task, tier, provider, model, attempt, failure,
		input, output, cache_read, cache_write, cost, estimated) VALUES %s`, "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", us,
		func(u usage.Row) []any {
			return []any{
				nanos(u.At), u.Day, u.Turn, u.Step, u.Session, u.Sender, u.Agent, u.Task, u.Tier, u.Provider, u.Model, u.Attempt, u.Failure,
				u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Cost, u.Estimated,
			}
		})
}

// ListUsage implements usage.Log.
func (s *Store) ListUsage(ctx context.Context, f usage.Filter) ([]usage.Row, error) {
	rows, err := list(ctx, s.read, scanUsage, `SELECT id, at, day, turn, step, session, sender, agent, task, tier, provider, model, attempt, failure,
		input, output, cache_read, cache_write, cost, estimated FROM usage `+usageWhere+` ORDER BY id DESC LIMIT ?4`, usageArgs(f)...)
	slices.Reverse(rows)
	return rows, err
}

// usageWhere uses the parameters of usageArgs.
const usageWhere = "WHERE (CAST(?1 AS BIGINT) = 0 OR at >= ?1) AND (CAST(?2 AS BIGINT) = 0 OR at < ?2) AND (?3 = '' OR turn = ?3) AND (?5 = '' OR sender = ?5)"

// usageSums are the columns of a sum after its key.
const usageSums = `count(*), count(*) FILTER (WHERE failure <> ''), CAST(sum(input) AS BIGINT), CAST(sum(output) AS BIGINT), CAST(sum(cache_read) AS BIGINT),
	CAST(sum(cache_write) AS BIGINT), CAST(sum(cost) AS BIGINT),
	count(*) FILTER (WHERE cost = 0 AND provider <> '` + usage.Free + `' AND input + output + cache_read + cache_write > 0)`

func usageArgs(f usage.Filter) []any {
	if f.Limit <= 0 {
		f.Limit = 1000
	}
	return []any{nanos(f.Since), nanos(f.Until), f.Turn, f.Limit, f.Sender}
}

// SumUsage implements usage.Log.
func (s *Store) SumUsage(ctx context.Context, by usage.Key, f usage.Filter) ([]usage.Sum, error) {
	return sumUsage(ctx, s.read, by, f)
}

func sumUsage(ctx context.Context, db Reads, by usage.Key, f usage.Filter) ([]usage.Sum, error) {
	key, order, err := usageKey(by)
	if err != nil {
		return nil, err
	}
	return list(ctx, db, scanSpent, `SELECT `+key+`, `+usageSums+` FROM usage `+usageWhere+` GROUP BY 1 ORDER BY `+order+` LIMIT ?4`, usageArgs(f)...)
}

// usageKey returns the expression of a key, and the order of its sums.
func usageKey(by usage.Key) (key, order string, err error) {
	key, order = string(by), "sum(cost) DESC, sum(input + output + cache_read + cache_write) DESC, 1"
	switch {
	case !slices.Contains(usage.Keys(), by):
		return "", "", fmt.Errorf("sum usage: no key %q", by)
	case by == usage.All:
		key = "''"
	case by == usage.ByModel:
		key = "provider || '/' || model"
	case by == usage.ByDay:
		order = "1"
	}
	return key, order, nil
}

func scanUsage(scan func(...any) error) (usage.Row, error) {
	var u usage.Row
	var at int64
	err := scan(&u.ID, &at, &u.Day, &u.Turn, &u.Step, &u.Session, &u.Sender, &u.Agent, &u.Task, &u.Tier, &u.Provider, &u.Model, &u.Attempt, &u.Failure,
		&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.Cost, &u.Estimated)
	u.At = instant(at)
	return u, err
}

func scanSpent(scan func(...any) error) (usage.Sum, error) {
	var s usage.Sum
	err := scan(&s.Key, &s.Calls, &s.Failed, &s.Input, &s.Output, &s.CacheRead, &s.CacheWrite, &s.Cost, &s.Unpriced)
	return s, err
}

// SumUsage implements the method of usage.Log for reading.
func (r *Reader) SumUsage(ctx context.Context, by usage.Key, f usage.Filter) ([]usage.Sum, error) {
	if r.version < usageVersion {
		return nil, nil // no host of this version has run yet
	}
	return sumUsage(ctx, r.db, by, f)
}

// usageVersion is the first schema version with the table.
const usageVersion = 9
