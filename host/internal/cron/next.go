package cron

import "time"

// horizon is how many days Next looks ahead: a 29th of February may be eight years away.
const horizon = 9 * 366

// Next returns the first moment after t at which the expression is due by the clocks of t's zone, or the zero time if there is none.
//
// The search steps through wall-clock times, kept as UTC, and converts only a match to a moment: both have the same order.
func (e Expression) Next(t time.Time) time.Time {
	shown := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC).Add(time.Minute)
	for days := 0; days < horizon; {
		day := time.Date(shown.Year(), shown.Month(), shown.Day(), 0, 0, 0, 0, time.UTC)
		if e.onDay(day) {
			for ; sameDay(shown, day); shown = shown.Add(time.Minute) {
				if !has(e.hour, shown.Hour()) {
					shown = shown.Truncate(time.Hour).Add(59 * time.Minute) // the loop adds the last minute
					continue
				}
				if !has(e.minute, shown.Minute()) {
					continue
				}
				if due := resolve(shown, t.Location()); due.After(t) {
					return due
				}
			}
		}
		shown = day.AddDate(0, 0, 1)
		days++
	}
	return time.Time{}
}

func sameDay(a, b time.Time) bool { return a.YearDay() == b.YearDay() && a.Year() == b.Year() }

// resolve returns the first moment at which the clocks of a zone show a wall-clock time, which is given as UTC. For a time that the
// clocks skip it is the moment after the jump.
func resolve(shown time.Time, zone *time.Location) time.Time {
	t := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), 0, 0, zone)
	start, end := t.ZoneBounds()
	switch d := wall(t).Sub(shown); {
	case d > 0:
		return start
	case d < 0:
		return end
	}
	if start.IsZero() {
		return t
	}
	_, before := start.Add(-time.Second).Zone()
	if earlier := shown.Add(-time.Duration(before) * time.Second); earlier.Before(start) {
		return earlier.In(zone)
	}
	return t
}

// wall returns the wall-clock time of t, as UTC.
func wall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}
