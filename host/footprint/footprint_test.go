package footprint

import (
	"runtime/debug"
	"testing"
)

func TestBeginGivesBackWhatWasSet(t *testing.T) {
	set := debug.SetGCPercent(100)
	defer debug.SetGCPercent(set)
	for _, c := range []struct {
		name          string
		before, start int
	}{
		{"the default", 100, startPercent},
		{"more collecting", 50, startPercent},
		{"less collecting", 1000, 1000},
		{"no collecting", -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			debug.SetGCPercent(c.before)
			ready := Begin()
			start := debug.SetGCPercent(c.before)
			debug.SetGCPercent(start)
			ready()
			if after := debug.SetGCPercent(100); start != c.start || after != c.before {
				t.Errorf("%d during the start and %d after it, want %d and %d", start, after, c.start, c.before)
			}
		})
	}
}
