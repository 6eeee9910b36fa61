package model

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// When a model is left alone, and for how long.
const (
	breakAfter  = 5 // consecutive failures
	minOpen     = 15 * time.Second
	maxOpen     = 5 * time.Minute
	probeExpiry = 10 * time.Minute // of a probe that never reported
)

// breaker keeps a model that is down from costing every turn its retries. It opens after consecutive failures;
// when its time is over it lets one call through, the probe, whose outcome closes it or opens it for twice as long.
// The zero value is closed.
type breaker struct {
	mu       sync.Mutex
	failures int
	last     *Error
	open     time.Duration // how long it opens; 0 while closed
	until    time.Time
	probing  time.Time // since when a probe is under way, or zero
}

// admit returns nil if a call may be made now. Whoever is admitted must report.
func (b *breaker) admit(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == 0 {
		return nil
	}
	if now.Before(b.until) {
		return b.refusal(b.until.Sub(now))
	}
	if !b.probing.IsZero() && now.Sub(b.probing) < probeExpiry {
		return b.refusal(minOpen)
	}
	b.probing = now
	return nil
}

// refusal repeats the failure that opened the breaker.
func (b *breaker) refusal(wait time.Duration) error {
	e := *b.last
	e.RetryAfter = wait
	e.Err = fmt.Errorf("left alone after %d failures in a row, the last: %w", b.failures, b.last.Err)
	return &e
}

// report takes the outcome of an admitted call that began at some time. A call that was cancelled says nothing about the model, and
// one that was under way before the breaker opened is no probe.
func (b *breaker) report(now, began time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wasProbe := !b.probing.IsZero() && !began.Before(b.probing)
	if wasProbe {
		b.probing = time.Time{}
	}
	var e *Error
	if err != nil && !errors.As(err, &e) {
		return
	}
	if err == nil || answered(e.Kind) {
		b.failures, b.open, b.last, b.probing = 0, 0, nil, time.Time{}
		return
	}
	b.failures++
	b.last = e
	if b.failures >= breakAfter && (wasProbe || b.open == 0) {
		b.trip(now, e.RetryAfter)
	}
}

func (b *breaker) trip(now time.Time, asked time.Duration) {
	b.open = min(max(2*b.open, minOpen, asked), maxOpen)
	b.until = now.Add(b.open)
}

// answered tells the failures of a request from those of a model: something is alive and has an opinion.
func answered(k Kind) bool { return k == BadRequest || k == TooLong || k == BadAnswer }
