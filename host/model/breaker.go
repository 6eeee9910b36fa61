package model

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// When a model is left alone, and for how long.
const (
	breakAfter  = 5 // failures without an answer in between
	mostOfOne   = 3 // of them that one person's messages count for, so that nobody can shut the others out
	minOpen     = 15 * time.Second
	maxOpen     = 45 * time.Second // shorter than maxHold: a message that is held back lives to see a probe
	maxAsked    = 5 * time.Minute  // where the provider asks for more
	probeGrace  = 2 * time.Second  // how long others have for a probe of theirs when one person's has failed
	probeExpiry = 10 * time.Minute // of a probe that never reported
)

// breaker keeps a model that is down from costing every turn its retries. It opens after failures of the provider, of more than one
// person's messages; when its time is over it lets one call through, the probe. An answer closes it. When the probe fails, it may be the
// message that is to blame: somebody else's is the next probe, and only when that fails too the breaker opens for twice as long. The zero
// value is closed.
type breaker struct {
	mu       sync.Mutex
	failures int
	sources  map[string]int // failures by person; who cannot be told apart is one
	last     *Error
	open     time.Duration // how long it opens; 0 while closed
	until    time.Time
	probing  time.Time // since when a probe is under way, or zero
	prober   string    // whose probe has failed since the breaker opened
	changed  chan struct{}
}

// heldError is the refusal of a call that may be made a little later.
type heldError struct {
	cause   *Error
	changed <-chan struct{} // closed when it may be worth asking again before the time is over
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

// refusal repeats the failure that opened the breaker.
func (b *breaker) refusal(wait time.Duration) error {
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	e := *b.last
	e.RetryAfter = wait
	e.Err = fmt.Errorf("left alone after %d failures in a row, the last: %w", b.failures, b.last.Err)
	return &heldError{&e, b.changed}
}

// report takes the outcome of an admitted call that began at some time. A call that was cancelled, or for which this machine lacked
// something, says nothing about the model, and one that was under way before the breaker opened is no probe.
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

// counts notes a failure and returns what all of them count for. A server that cannot be reached is down for everybody.
func (b *breaker) counts(source string, kind Kind) (sum int) {
	if b.sources == nil {
		b.sources = map[string]int{}
	}
	if b.open == 0 { // then all is said, and the map need not grow
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

// wake lets those who are held back ask again; b.mu is held.
func (b *breaker) wake() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// answered tells the failures of a request, and of the account, from those of a model: something is alive and has an opinion.
func answered(k Kind) bool { return k == BadRequest || k == TooLong || k == BadAnswer || k == Auth }
