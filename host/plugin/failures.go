package plugin

import "time"

// Figures of the restart rule.
const (
	backoffFirst     = time.Second
	backoffMost      = 2 * time.Minute
	quarantineAfter  = 5 // failures
	quarantineWithin = 10 * time.Minute
	calmAfter        = 10 * time.Minute // ready for so long, and earlier failures are forgiven
)

// failures decides when a failed instance starts again, if at all. The window matters: a count that never resets
// ends with every long-lived instance disabled.
type failures struct {
	times  []time.Time // of the latest ones, at most quarantineAfter
	streak int         // since the last calm
}

// add notes a failure and reports whether there were too many in too short a time.
func (f *failures) add(now time.Time) (quarantine bool) {
	f.streak++
	f.times = append(f.times, now)
	if len(f.times) > quarantineAfter {
		f.times = f.times[1:]
	}
	return len(f.times) == quarantineAfter && now.Sub(f.times[0]) <= quarantineWithin
}

// delay is how long to wait after the latest failure: anything up to a ceiling that doubles with each failure, so that
// instances that failed together do not come back together. random returns a number in [0, 1).
func (f *failures) delay(random func() float64) time.Duration {
	ceiling := backoffMost
	if n := f.streak - 1; n < 8 { // 1 s << 7 is above the most
		ceiling = min(backoffFirst<<n, backoffMost)
	}
	return time.Duration(random() * float64(ceiling))
}

// calm forgives everything.
func (f *failures) calm() { *f = failures{} }

// permanent marks errors that the same start would meet again: only a change by a person can help.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }
