package machine

import (
	"sync"
	"time"
)

// Throttle passes on at most one line in each period. Of those that come too fast it keeps the last one for when the
// period is over. After stop it passes on nothing.
func Throttle(period time.Duration, tell func(line string)) (throttled func(line string), stop func()) {
	t := &throttle{period: period, tell: tell}
	return t.line, t.stop
}

type throttle struct {
	period time.Duration
	tell   func(string)

	mu      sync.Mutex // held while telling, so that stop waits for a line that is being told
	timer   *time.Timer
	kept    string
	waiting bool // the timer runs
	stopped bool
}

func (t *throttle) line(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.stopped:
	case t.waiting:
		t.kept = line
	default:
		t.say(line)
	}
}

// say tells a line and begins a period; t.mu is held.
func (t *throttle) say(line string) {
	t.kept, t.waiting = "", true
	t.tell(line)
	t.timer = time.AfterFunc(t.period, t.over)
}

// over ends a period.
func (t *throttle) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = false
	if !t.stopped && t.kept != "" {
		t.say(t.kept)
	}
}

func (t *throttle) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
}
