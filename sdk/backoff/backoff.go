// Package backoff says how long to wait before something that failed is tried again.
//
// Start with Backoff, for a loop that keeps up a connection, or with Delay where the failures are counted already. Waits double with each
// failure, and half of each is left to chance: many that lost one server do not come back together. The package retries nothing by
// itself.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff counts the failures of one loop.
type Backoff struct {
	First, Most time.Duration // the longest waits after the first failure, and after any
	failures    int
}

// calm is how long something has to go well for earlier failures to be forgotten.
const calm = time.Minute

// Failed counts a failure of something that went well for so long before, and returns how long to wait.
func (b *Backoff) Failed(up time.Duration) time.Duration {
	if b.failures++; up > calm {
		b.failures = 1
	}
	return Delay(b.failures, b.First, b.Most)
}

// Failures returns how many failures in a row there were.
func (b *Backoff) Failures() int { return b.failures }

// Reset forgets all failures.
func (b *Backoff) Reset() { b.failures = 0 }

// Delay returns how long to wait after so many failures in a row: first after one, twice as long after each more, never longer than
// most; between half of that and all of it.
func Delay(failures int, first, most time.Duration) time.Duration {
	d := first
	for n := 1; n < failures && d < most; n++ {
		d *= 2
	}
	d = min(d, most)
	return d/2 + rand.N(d/2+1)
}

// Sleep waits for d, or fails once ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
