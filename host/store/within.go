package store

import "time"

// clockSlack is how far a clock may be put back before it counts as set back.
const clockSlack = time.Minute

// Within reports whether now lies between two times that were written by the same clock. After the clock was set back behind the first
// of them it does not: nobody said that what was to end should last longer.
func Within(began, until, now time.Time) bool {
	return now.Before(until) && !now.Before(began.Add(-clockSlack))
}
