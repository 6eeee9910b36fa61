// Package clock compares times that were written down with a clock that may have been set back since.
//
// Start with Within. The package reads no clock.
package clock

import "time"

// slack is how far a clock may be put back before it counts as set back.
const slack = time.Minute

// Within reports whether now lies between two times that were written by the same clock. After the clock was set back behind the first
// of them it does not: nobody said that what was to end should last longer.
func Within(began, until, now time.Time) bool {
	return now.Before(until) && !now.Before(began.Add(-slack))
}
