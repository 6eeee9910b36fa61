package model

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// When a breaker opens, and for how long.
const (
	breakAfter  = 5 // failures without an answer in between
	mostOfOne   = 3 // of them that one person's messages count for, so that nobody can shut the others out
	minOpen     = 15 * time.Second
	maxOpen     = 45 * time.Second // shorter than maxHold: a message that is held back lives to see a probe
	maxAsked    = 5 * time.Minute  // if the provider asks for more
	probeGrace  = 2 * time.Second  // head start of others for a probe after one person's probe has failed
	probeExpiry = 10 * time.Minute // of a probe that never reported
)

// breaker spares turns the retries of a model that is down. It opens after failures of the provider with messages of more than one
// person. When its time is over it lets one call through, the probe. An answer closes it. A failed probe may be the fault of its message,
// so another person's message is the next probe, and only if that fails too the breaker opens for twice as long. The zero
// value is closed.
type breaker struct {
	mu       sync.Mutex
	failures int
	sources  map[string]int // failures by person; unknown persons count as one
	last     *Error
	open     time.Duration // how long it opens; 0 while closed
	until    time.Time
	probing  time.Time // start of the probe under way, or zero
	prober   string    // sender of the probe that has failed since the breaker opened
	changed  chan struct{}
}

// heldError refuses a call while the breaker is open.
type heldError struct {
	cause   *Error
	changed <-chan struct{} // closed when the call may pass before the time is over
}

func (e *heldError) Error() string { return e.cause.Error() }
func (e *heldError) Unwrap() error { return e.cause }

// admit returns nil if a call for source may be made now. Each call that is admitted must be reported.
func (b *breaker) admit(now time.Time, source string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == 0 {
		return nil
	}
	until := b.until
	if source != "" && source == b.prober {
		until = until.Add(probeGrace)
	}
	if now.Before(until) {
		return b.refusal(until.Sub(now))
	}
	if !b.probing.IsZero() && now.Sub(b.probing) < probeExpiry {
		return b.refusal(probeGrace)
	}
	b.probing = now
	return nil
}

// refusal is an error with the failure that opened the breaker.
func (b *breaker) refusal(wait time.Duration) error {
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	e := *b.last
	e.RetryAfter = wait
	e.Err = fmt.Errorf("left alone after %d failures in a row, the last: %w", b.failures, b.last.Err)
	return &heldError{&e, b.changed}
}

// report takes the outcome of an admitted call. A call that was cancelled, or that failed for lack of a resource of this machine, says
// nothing about the model; one that began before the breaker opened is not the probe.
func (b *breaker) report(now, began time.Time, source string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wasProbe := !b.probing.IsZero() && !began.Before(b.probing)
	if wasProbe {
		b.probing = time.Time{}
		defer b.wake()
	}
	var e *Error
	if err != nil && (!errors.As(err, &e) || e.Kind == Lacking) {
		return
	}
	if err == nil || answered(e.Kind) {
		b.failures, b.sources, b.open, b.last, b.probing, b.prober = 0, nil, 0, nil, time.Time{}, ""
		b.wake()
		return
	}
	b.failures++
	b.last = e
	if wasProbe && b.prober == "" && source != "" && e.RetryAfter == 0 {
		b.prober, b.until = source, now
		return
	}
	if b.counts(source, e.Kind) >= breakAfter && (wasProbe || b.open == 0) {
		b.trip(now, e.RetryAfter)
	}
}

// counts adds a failure and returns the weighted sum of all. A server that cannot be reached is down for everybody.
func (b *breaker) counts(source string, kind Kind) (sum int) {
	if b.sources == nil {
		b.sources = map[string]int{}
	}
	if b.open == 0 { // otherwise b.failures decides, and the map need not grow
		b.sources[source]++
	}
	for _, n := range b.sources {
		sum += min(n, mostOfOne)
	}
	if kind == Unreachable || b.open > 0 {
		sum = max(sum, b.failures)
	}
	return sum
}

func (b *breaker) trip(now time.Time, asked time.Duration) {
	b.open = min(max(2*b.open, minOpen), maxOpen)
	b.until = now.Add(max(b.open, min(asked, maxAsked)))
	b.prober = ""
}

// wake makes held calls try again; b.mu is held.
func (b *breaker) wake() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// answered reports whether a failure is one of the request or of the account: the provider itself is up.
func answered(k Kind) bool { return k == BadRequest || k == TooLong || k == BadAnswer || k == Auth }
