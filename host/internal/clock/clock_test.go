package clock

import (
	"testing"
	"time"
)

// TestWithin sets the clock back behind what was written.
func TestWithin(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		now  time.Time
		want bool
	}{
		{"at its beginning", noon, true},
		{"before its end", noon.Add(time.Hour - 1), true},
		{"at its end", noon.Add(time.Hour), false},
		{"the clock was put right by a second", noon.Add(-time.Second), true},
		{"the clock was set back by five hours", noon.Add(-5 * time.Hour), false},
	} {
		if got := Within(noon, noon.Add(time.Hour), c.now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
