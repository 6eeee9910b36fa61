// Package stopwatch times what takes some hundred nanoseconds. To read the clock twice takes fifty of them; to read the processor's own
// counter twice takes ten, and that is done where the kernel keeps time by the same counter, and so has found it to be steady and the
// same on all processors. Elsewhere it is the clock.
//
// Start with New. What it tells is for people: what has to end in time goes by the clock.
package stopwatch

import (
	"math"
	"sync/atomic"
	"time"
)

// Watch is a stopwatch. It is safe for concurrent use.
type Watch struct {
	steady bool // there is a counter
	base   point
	origin time.Time
	rate   atomic.Uint64 // nanoseconds of a tick, as the bits of a float64; 0 while it is not known
}

// Mark is when something began.
type Mark struct {
	at   int64 // ticks, or nanoseconds since the origin
	rate uint64
}

// point is the same moment by both: the clock was read within so many ticks before.
type point struct {
	clock         time.Duration
	ticks, within int64
}

// The two are compared so long after the base, and how near to each other they were read may make such a part of the rate.
const (
	apart = 20 * time.Millisecond
	near  = 1e-4
)

// New makes a watch that goes by the clock at first, and soon by the counter if there is one.
func New() *Watch {
	w := &Watch{steady: steady(), origin: time.Now()}
	w.base = w.look()
	return w
}

// look reads both, the clock between two readings of the counter.
func (w *Watch) look() point {
	before := ticks()
	clock := time.Since(w.origin)
	after := ticks()
	return point{clock, after, after - before}
}

// Start begins a measurement.
func (w *Watch) Start() Mark {
	if rate := w.rate.Load(); rate != 0 {
		return Mark{ticks(), rate}
	}
	return Mark{at: int64(time.Since(w.origin))}
}

// Since is how long ago that was.
func (w *Watch) Since(m Mark) time.Duration {
	if m.rate != 0 {
		return time.Duration(float64(max(ticks()-m.at, 0)) * math.Float64frombits(m.rate))
	}
	took := time.Since(w.origin) - time.Duration(m.at)
	if w.steady {
		w.compare()
	}
	return took
}

// compare finds the rate, once the watch has gone long enough.
func (w *Watch) compare() {
	now := w.look()
	clock, passed := now.clock-w.base.clock, now.ticks-w.base.ticks
	if clock >= apart && float64(w.base.within+now.within) < near*float64(passed) {
		w.rate.Store(math.Float64bits(float64(clock) / float64(passed)))
	}
}
