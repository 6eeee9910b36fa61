package plugin

import "time"

// Figures of the restart rule.
const (
	backoffFirst     = time.Second
	backoffMost      = 2 * time.Minute
	quarantineAfter  = 5 // failures
	quarantineWithin = 10 * time.Minute
	calmAfter        = 10 * time.Minute // an instance that is ready for this long starts with no failures again
)

// failures decides when a failed instance starts again, if at all. It counts within a window, because a count that never resets
// would disable every long-lived instance in the end.
type failures struct {
	times  []time.Time // of the latest ones, at most quarantineAfter
	streak int         // since the last reset
}

// add records a failure and reports whether there were too many within the window.
func (f *failures) add(now time.Time) (quarantine bool) {
	f.streak++
	f.times = append(f.times, now)
	if len(f.times) > quarantineAfter {
		f.times = f.times[1:]
	}
	return len(f.times) == quarantineAfter && now.Sub(f.times[0]) <= quarantineWithin
}

// delay is the pause after the latest failure: a random time up to a ceiling that doubles with each failure, so that instances that
// failed together do not restart together. random returns a number in [0, 1).
func (f *failures) delay(random func() float64) time.Duration {
	ceiling := backoffMost
	if n := f.streak - 1; n < 8 { // 1 s << 7 is above the most
		ceiling = min(backoffFirst<<n, backoffMost)
	}
	return time.Duration(random() * float64(ceiling))
}

// calm resets the count.
func (f *failures) calm() { *f = failures{} }

// permanent marks errors that would happen again at every start, until a person changes something.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }
