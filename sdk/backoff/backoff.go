// Package backoff computes how long to wait before a failed operation is tried again.
//
// Start with Loop, which maintains a connection, with Backoff for your own loop, or with Delay if you count the failures yourself. Waits
// double with each failure, and half of each is random, so that many clients that lost one server do not reconnect at the same time.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff counts the failures of one loop.
type Backoff struct {
	First, Most time.Duration // the longest wait after the first failure, and after any
	failures    int
}

// calm is how long a connection has to last for earlier failures to be forgotten.
const calm = time.Minute

// Failed counts a failure after a connection that lasted for up, and returns how long to wait.
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

// Loop calls connect again and again until ctx ends. failed is called with each error and the wait that follows, and may return a longer wait.
func (b Backoff) Loop(ctx context.Context, connect func(context.Context) error, failed func(err error, wait time.Duration) time.Duration) {
	for ctx.Err() == nil {
		began := time.Now()
		err := connect(ctx)
		if ctx.Err() != nil {
			return
		}
		_ = Sleep(ctx, failed(err, b.Failed(time.Since(began))))
	}
}

// Delay returns how long to wait after a number of consecutive failures: up to first after one, and twice as long after each further one,
// but never longer than most. The result is random, between half of that and all of it.
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
