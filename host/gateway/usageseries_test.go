package gateway

import (
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/model/usage"
)

func TestSpans(t *testing.T) {
	for _, c := range []struct {
		name               string
		step               UsageStep
		zone, since, until string
		count              int
		first, last        string // of the bounds
	}{
		{"days over the end of winter time", ByDay, "Europe/Berlin", "2026-03-28T10:00:00Z", "2026-03-30T10:00:00Z", 3, "2026-03-28T00:00:00+01:00", "2026-03-31T00:00:00+02:00"},
		{"days over the end of summer time", ByDay, "Europe/Berlin", "2026-10-24T10:00:00Z", "2026-10-25T22:30:00Z", 2, "2026-10-24T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		{"a midnight that is not", ByDay, "America/Santiago", "2026-09-05T12:00:00Z", "2026-09-07T12:00:00Z", 3, "2026-09-05T00:00:00-04:00", "2026-09-08T00:00:00-03:00"},
		{"hours of a half zone", ByHour, "Asia/Kolkata", "2026-09-05T12:10:00Z", "2026-09-05T13:00:00Z", 2, "2026-09-05T17:00:00+05:30", "2026-09-05T19:00:00+05:30"},
		{"weeks from Monday", ByWeek, "UTC", "2026-11-01T12:00:00Z", "2026-11-03T00:00:00Z", 2, "2026-10-26T00:00:00Z", "2026-11-09T00:00:00Z"},
		{"months of a year", ByMonth, "UTC", "2025-12-31T12:00:00Z", "2026-12-01T00:00:00Z", 12, "2025-12-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"backwards", ByDay, "UTC", "2026-11-03T12:00:00Z", "2026-11-01T00:00:00Z", 0, "2026-11-03T00:00:00Z", "2026-11-03T00:00:00Z"},
		{"too many", ByHour, "UTC", "0001-01-01T00:00:00Z", "9999-11-01T00:00:00Z", MaxSpans + 1, "0001-01-01T00:00:00Z", "0001-01-17T17:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			since, _ := time.Parse(time.RFC3339, c.since)
			until, _ := time.Parse(time.RFC3339, c.until)
			got := c.step.Spans(since, until, zone)
			if len(got) != c.count+1 || got[0].Format(time.RFC3339) != c.first || got[len(got)-1].Format(time.RFC3339) != c.last {
				t.Errorf("%d spans from %s to %s", len(got)-1, got[0].Format(time.RFC3339), got[len(got)-1].Format(time.RFC3339))
			}
		})
	}
}

func TestUsageSeries(t *testing.T) {
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	bounds := []time.Time{day, day.AddDate(0, 0, 1), day.AddDate(0, 0, 2)}
	got := NewUsageSeries(ByDay, bounds, []usage.Point{
		{Span: 0, Rest: true, Sum: usage.Sum{Calls: 9, Input: 900, Cost: 9e9}},
		{Span: 0, Sum: usage.Sum{Key: "a", Calls: 1, Input: 5, Unpriced: 1}},
		{Span: 1, Sum: usage.Sum{Key: "", Calls: 1, Input: 7, Cost: 2e9}},
		{Span: 1, Sum: usage.Sum{Key: "a", Calls: 2, Input: 6, Unpriced: 1, Cost: 1e9}},
	})
	if len(got.Series) != 3 || got.Series[0].Key != "" || got.Series[0].Rest || got.Series[1].Key != "a" || !got.Series[2].Rest || len(got.Starts) != 2 {
		t.Fatalf("%+v", got)
	}
	a := got.Series[1]
	if a.Points[0].CostUSD != nil || a.Points[0].Cost() != "unknown" || a.Points[1].Cost() != "at least 1.0000" || a.Sum.Cost() != "at least 1.0000" || a.Sum.Input != 11 {
		t.Errorf("%+v", a)
	}
	if p := got.Series[0].Points[0]; p.CostUSD == nil || *p.CostUSD != 0 || p.Calls != 0 {
		t.Errorf("a day without calls is %+v", p)
	}
}
