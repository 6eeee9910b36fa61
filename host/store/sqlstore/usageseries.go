package sqlstore

import (
	"context"
	"database/sql"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/model/usage"
)

// usageSpans reads the bounds of ?6 as spans; CROSS JOIN keeps the order, so that the index on at is used for each.
const usageSpans = `json_each(?6) low JOIN json_each(?6) high ON high.key = low.key + 1 CROSS JOIN usage ON at >= CAST(low.value AS BIGINT) AND at < CAST(high.value AS BIGINT)`

// UsageSeries implements usage.Log.
func (s *Store) UsageSeries(ctx context.Context, by usage.Key, bounds []int64, top int, f usage.Filter) ([]usage.Point, error) {
	if len(bounds) < 2 {
		return nil, nil
	}
	f.Since, f.Until, f.Limit = instant(bounds[0]), instant(bounds[len(bounds)-1]), top
	sums, err := s.SumUsage(ctx, by, f)
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(sums))
	for _, sum := range sums {
		keys = append(keys, sum.Key)
	}
	key, _, err := usageKey(by)
	if err != nil {
		return nil, err
	}
	named, err := jsonform.Marshal(keys)
	if err != nil {
		return nil, err
	}
	between, err := jsonform.Marshal(bounds)
	if err != nil {
		return nil, err
	}
	return list(ctx, s.read, scanPoint, `SELECT low.key, CASE WHEN `+key+` IN (SELECT value FROM json_each(?7)) THEN `+key+` END AS k, `+usageSums+`
		FROM `+usageSpans+` `+usageWhere+` GROUP BY 1, 2 ORDER BY 1, 2 NULLS FIRST`, append(usageArgs(f), string(between), string(named))...)
}

func scanPoint(scan func(...any) error) (usage.Point, error) {
	var p usage.Point
	var key sql.NullString
	err := scan(&p.Span, &key, &p.Calls, &p.Failed, &p.Input, &p.Output, &p.CacheRead, &p.CacheWrite, &p.Cost, &p.Unpriced)
	p.Key, p.Rest = key.String, !key.Valid
	return p, err
}
