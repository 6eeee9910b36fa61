package agent

import "time"

// stopwatch measures the time that a turn may use. Time in which a person thinks does not count.
type stopwatch struct {
	left  time.Duration
	since time.Time
	timer *time.Timer
}

// newStopwatch starts a watch that calls done, in a goroutine of its own, when limit is used up.
func newStopwatch(limit time.Duration, done func()) *stopwatch {
	return &stopwatch{left: limit, since: time.Now(), timer: time.AfterFunc(limit, done)}
}

func (w *stopwatch) pause() {
	if w.timer.Stop() {
		w.left -= time.Since(w.since)
	}
}

func (w *stopwatch) resume() {
	w.since = time.Now()
	w.timer.Reset(max(w.left, 0))
}
