package early

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// percent is the GOGC in force. To set it, which returns the one before, would undo what is set meanwhile.
func percent() int {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64()) // -1 where nothing is collected, as all bits
}

func TestGivesBackWhatWasSet(t *testing.T) {
	set := debug.SetGCPercent(100)
	defer debug.SetGCPercent(set)
	for _, c := range []struct {
		name                 string
		before, start, ready int
	}{
		{"the default", 100, startPercent, firstPercent},
		{"more collecting", 50, startPercent, firstPercent},
		{"less collecting", 300, startPercent, 300},
		{"even less", 1000, 1000, 1000},
		{"no collecting", -1, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			debug.SetGCPercent(c.before)
			before := begin()
			start := percent()
			end(before)
			if first := percent(); start != c.start || first != c.ready {
				t.Errorf("%d during the start and %d after it, want %d and %d", start, first, c.start, c.ready)
			}
			runtime.GC()
			for late := time.Now().Add(time.Minute); percent() != c.before; runtime.Gosched() {
				if time.Now().After(late) {
					t.Fatalf("%d after a collection, want %d", percent(), c.before)
				}
			}
		})
	}
}
