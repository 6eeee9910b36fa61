package store

import (
	"slices"
	"testing"
	"time"
)

func TestIDsSortByTime(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	ids := []string{NewID(now), NewID(now.Add(time.Millisecond)), NewID(now.Add(time.Hour)), NewID(now.AddDate(100, 0, 0))}
	if !slices.IsSorted(ids) {
		t.Fatalf("%v are not sorted", ids)
	}
	for _, id := range ids {
		if len(id) != 26 {
			t.Errorf("%s has %d characters", id, len(id))
		}
	}
}

// TestIDsAfterAnother has a clock that steps back, stands still and runs.
func TestIDsAfterAnother(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for _, c := range []struct {
		name string
		now  time.Time
	}{
		{"the clock stepped back", now.AddDate(-1, 0, 0)},
		{"the same millisecond", now},
		{"the clock ran on", now.Add(time.Second)},
		{"no time at all", time.UnixMilli(0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			ids := []string{NewID(now)}
			for range 1000 {
				ids = append(ids, NewIDAfter(ids[len(ids)-1], c.now))
			}
			if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 1001 {
				t.Fatalf("%v are not in order", ids[:3])
			}
		})
	}
	for _, odd := range []string{"", "t1", "!!!", "~~~~~~~~~~~~~~~~~~~~~~~~~~"} {
		if got, want := NewIDAfter(odd, now), NewID(now); got[:9] != want[:9] {
			t.Errorf("after %q: %s, want the time of %s", odd, got, want)
		}
	}
}
