package gateway

import (
	"cmp"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/model/usage"
)

// UsageStep is a span of time on the calendar.
type UsageStep string

// The steps.
const (
	ByHour  UsageStep = "hour"
	ByDay   UsageStep = "day"
	ByWeek  UsageStep = "week" // from Monday
	ByMonth UsageStep = "month"
)

// MaxSpans bounds the spans of a series.
const MaxSpans = 400

// UsageSeries is usage by time and key. Each line has a point for each of Starts.
type UsageSeries struct {
	Step   UsageStep   `json:"step"`
	Zone   string      `json:"zone"`
	Starts []time.Time `json:"starts" doc:"When each span begins; the last one ends at until"`
	Until  time.Time   `json:"until"`
	Series []UsageLine `json:"series" doc:"A line for each key, the highest sum first; the rest comes last"`
}

// UsageLine is the usage of one key, or of all that have no line of their own.
type UsageLine struct {
	Key    string     `json:"key"`
	Rest   bool       `json:"rest,omitempty" doc:"The line of all keys that have none of their own"`
	Sum    UsageSum   `json:"sum"`
	Points []UsageSum `json:"points"`
}

// Spans returns the bounds of the spans of a step that begin with the one of since and end at until. There are MaxSpans+1 spans if there are
// too many.
func (s UsageStep) Spans(since, until time.Time, zone *time.Location) []time.Time {
	y, m, d := since.In(zone).Date()
	first := time.Date(y, m, d, 0, 0, 0, 0, zone)
	at := func(i int) time.Time { return time.Date(y, m, d+i, 0, 0, 0, 0, zone) }
	switch s {
	case ByHour:
		first = since.In(zone).Add(-time.Duration(since.In(zone).Minute())*time.Minute -
			time.Duration(since.Second())*time.Second - time.Duration(since.Nanosecond()))
		at = func(i int) time.Time { return first.Add(time.Duration(i) * time.Hour) }
	case ByWeek:
		monday := d - (int(first.Weekday())+6)%7
		at = func(i int) time.Time { return time.Date(y, m, monday+7*i, 0, 0, 0, 0, zone) }
	case ByMonth:
		at = func(i int) time.Time { return time.Date(y, m+time.Month(i), 1, 0, 0, 0, 0, zone) }
	}
	bounds := []time.Time{at(0)}
	for i := 1; at(i-1).Before(until) && i <= MaxSpans+1; i++ {
		bounds = append(bounds, at(i))
	}
	return bounds
}

// NewUsageSeries arranges the points of the store.
func NewUsageSeries(step UsageStep, bounds []time.Time, points []usage.Point) UsageSeries {
	last := len(bounds) - 1
	out := UsageSeries{Step: step, Zone: bounds[0].Location().String(), Starts: bounds[:last], Until: bounds[last], Series: []UsageLine{}}
	type line struct {
		key  string
		rest bool
	}
	at, sums := map[line]int{}, []usage.Sum{}
	for _, p := range points {
		k := line{p.Key, p.Rest}
		i, known := at[k]
		if !known {
			i = len(sums)
			at[k], sums = i, append(sums, usage.Sum{Key: p.Key})
			out.Series = append(out.Series, UsageLine{Key: p.Key, Rest: p.Rest, Points: emptySums(last)})
		}
		sum := p.Sum
		sum.Key = ""
		out.Series[i].Points[p.Span] = usageSum(sum)
		sums[i] = added(sums[i], p.Sum)
	}
	for i := range out.Series {
		sums[i].Key = ""
		out.Series[i].Sum = usageSum(sums[i])
	}
	out.sort()
	return out
}

func emptySums(n int) []UsageSum {
	list := make([]UsageSum, n)
	for i := range list {
		list[i] = usageSum(usage.Sum{})
	}
	return list
}

func added(a, b usage.Sum) usage.Sum {
	a.Calls, a.Failed, a.Cost, a.Unpriced = a.Calls+b.Calls, a.Failed+b.Failed, a.Cost+b.Cost, a.Unpriced+b.Unpriced
	a.Input, a.Output, a.CacheRead, a.CacheWrite = a.Input+b.Input, a.Output+b.Output, a.CacheRead+b.CacheRead, a.CacheWrite+b.CacheWrite
	return a
}

// sort puts the line with the highest cost first, then the one with the most tokens, and the rest last.
func (u *UsageSeries) sort() {
	rest := map[bool]int{true: 1}
	slices.SortStableFunc(u.Series, func(a, b UsageLine) int {
		return cmp.Or(cmp.Compare(rest[a.Rest], rest[b.Rest]), -cmp.Compare(a.Sum.known(), b.Sum.known()), -cmp.Compare(a.Sum.Tokens(), b.Sum.Tokens()),
			cmp.Compare(a.Key, b.Key))
	})
}

// Tokens is the sum that budgets count.
func (s UsageSum) Tokens() int64 { return s.Input + s.Output + s.CacheRead + s.CacheWrite }

func (s UsageSum) known() float64 {
	if s.CostUSD == nil {
		return 0
	}
	return *s.CostUSD
}
