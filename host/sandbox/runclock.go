package sandbox

import (
	"context"
	"sync"
	"time"
)

// maxPaused bounds how long the clocks of one run may be stopped together.
const maxPaused = time.Hour

// runClock is the time limit of a program that calls helpers: it is stopped while a person thinks about one.
type runClock struct {
	done context.CancelFunc

	mu     sync.Mutex
	left   time.Duration
	since  time.Time
	timer  *time.Timer
	paused int
	fired  bool
}

// newRunClock starts a clock that calls done when the limit is used up.
func newRunClock(limit time.Duration, done context.CancelFunc) *runClock {
	c := &runClock{done: done, left: limit, since: time.Now()}
	c.timer = time.AfterFunc(limit, c.fire)
	return c
}

func (c *runClock) fire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused > 0 || time.Since(c.since) < c.left { // it was stopped in the last moment
		return
	}
	c.fired = true
	c.done()
}

func (c *runClock) pause() (resume func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused++; c.paused == 1 {
		c.timer.Stop()
		c.left = max(0, c.left-time.Since(c.since))
	}
	return sync.OnceFunc(c.resume)
}

func (c *runClock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused--; c.paused == 0 && !c.fired {
		c.since = time.Now()
		c.timer.Reset(c.left)
	}
}

// stop ends the clock and reports whether it has ended the program.
func (c *runClock) stop() (fired bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	return c.fired
}
