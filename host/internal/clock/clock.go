// Package clock compares stored times with a clock that may have been set back since.
//
// Start with Within. The package reads no clock.
package clock

import "time"

// slack is how far a clock may be put back before it counts as set back.
const slack = time.Minute

// Within reports whether now lies between two times that the same clock gave. It reports false for a clock that was set back behind the
// first of them: a permission must not last longer because a clock changed.
func Within(began, until, now time.Time) bool {
	return now.Before(until) && !now.Before(began.Add(-slack))
}
