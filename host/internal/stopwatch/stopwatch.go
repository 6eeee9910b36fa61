// Package stopwatch is a timeout that can be paused, as while a person is asked.
//
// Start with Start. Pauses may overlap; the watch resumes when the last of them ends.
package stopwatch

import (
	"sync"
	"time"
)

// Watch counts down. It is safe for concurrent use.
type Watch struct {
	done func()

	mu     sync.Mutex
	left   time.Duration
	since  time.Time
	timer  *time.Timer
	paused int
	fired  bool
	over   bool
}

// Start starts a watch that calls done once, in a goroutine of its own, when limit is used up.
func Start(limit time.Duration, done func()) *Watch {
	w := &Watch{done: done, left: limit, since: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(limit, w.fire)
	return w
}

func (w *Watch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.paused > 0 || time.Since(w.since) < w.left { // stopped or paused at the last moment
		return
	}
	w.fired, w.over = true, true
	w.done()
}

// Pause stops the watch until resume is called.
func (w *Watch) Pause() (resume func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused++; w.paused == 1 {
		w.timer.Stop()
		w.left = max(0, w.left-time.Since(w.since))
	}
	return sync.OnceFunc(w.resume)
}

func (w *Watch) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused--; w.paused == 0 && !w.over {
		w.since = time.Now()
		w.timer.Reset(w.left)
	}
}

// Stop ends the watch and reports whether it had called done.
func (w *Watch) Stop() (fired bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.over = true
	return w.fired
}
