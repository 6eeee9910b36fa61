package consent

import (
	"testing"
	"time"
)

// TestAGrantEndsWithItsClock sets the clock back behind the beginning of a grant.
func TestAGrantEndsWithItsClock(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	grant := Grant{Created: noon, Expires: noon.Add(time.Hour)}
	for now, want := range map[time.Time]bool{noon: true, noon.Add(time.Hour): false, noon.Add(-5 * time.Hour): false} {
		if grant.Open(now) != want {
			t.Errorf("at %s: open %v", now, !want)
		}
	}
}
