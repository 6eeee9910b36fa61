package pool

import (
	"context"
	"errors"
	"time"
)

// yieldTime lets a caller that has just taken an item run before the refill starts.
const yieldTime = 50 * time.Millisecond

// maxYield bounds how long refilling gives way.
const maxYield = 5 * time.Second

// maxCharge bounds the cost counted for one item: one that takes longer waits for something else.
const maxCharge = 5 * time.Second

// inspectEvery is the default interval between checks of the memory and of the items' age.
const inspectEvery = 5 * time.Second

// Run makes missing items, one at a time, until ctx ends.
func (s *Set[T]) Run(ctx context.Context) {
	inspect := time.NewTicker(s.config.Inspect)
	defer inspect.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-inspect.C:
			s.inspect(now)
		case <-s.kick:
		case <-next.C:
		}
		if wait := s.refill(ctx); wait >= 0 {
			next.Reset(wait)
		}
	}
}

// inspect replaces dead and old items, and ends all items while memory is short.
func (s *Set[T]) inspect(now time.Time) {
	state, err := s.config.Memory()
	if err != nil {
		state = Memory{Available: 1} // unknown, so the items stay
	}
	s.mu.Lock()
	changed := s.pressure.update(state)
	pressed := s.pressure.on
	var old, drained []T
	for _, f := range s.order {
		old = append(old, f.cull(now.Add(-s.config.MaxAge))...)
		if pressed {
			drained = append(drained, f.shrink(0)...)
		}
	}
	s.counts.Replaced += int64(len(old))
	s.counts.Drained += int64(len(drained))
	s.mu.Unlock()
	s.discard(append(old, drained...))
	if changed && pressed {
		s.config.Log.Warn("memory is short: ending warm sandboxes", "stalled_percent", state.Stalled, "available", state.Available)
	} else if changed {
		s.config.Log.Info("memory suffices again: making warm sandboxes")
	}
}

// refill makes one item if one is missing and due. It returns how long to wait before the next attempt; less than 0 means until it is
// woken.
func (s *Set[T]) refill(ctx context.Context) time.Duration {
	f, wait := s.neediest(time.Now())
	if f == nil || wait > 0 {
		return wait
	}
	item, took, err := f.make(ctx)
	if errors.Is(err, ErrNotNow) {
		return -1
	}
	s.made(f, took, err)
	if err == nil {
		s.Put(f.kind, item)
	}
	return 0
}

// made counts an item or a failed attempt.
func (s *Set[T]) made(f *shelf[T], took time.Duration, err error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.yielding = time.Time{}
	s.budget.spend(now, min(took, maxCharge))
	if err != nil {
		s.counts.Failures++
		f.failed(now)
	} else {
		s.counts.Refills++
		f.failures = 0
	}
}

// neediest returns the kind with the smallest share of its wanted items, among those that may be tried at the moment; if there is none, or
// refilling has to give way, it returns how long to wait.
func (s *Set[T]) neediest(now time.Time) (*shelf[T], time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.pressure.on {
		return nil, -1
	}
	var best *shelf[T]
	retry := time.Duration(-1)
	for _, f := range s.order {
		switch {
		case len(f.ready) >= f.size:
		case now.Before(f.until):
			if wait := f.until.Sub(now); retry < 0 || wait < retry {
				retry = wait
			}
		case best == nil || len(f.ready)*best.size < len(best.ready)*f.size:
			best = f
		}
	}
	if best == nil {
		return nil, retry
	}
	return best, max(s.yield(now), s.budget.wait(now))
}

// yield returns how long to give way to callers that wait for an item or have just got one. It does not wait for all of them: under
// constant load a pool that is never filled would serve none. s.mu is held.
func (s *Set[T]) yield(now time.Time) time.Duration {
	wait := yieldTime - now.Sub(time.Unix(0, s.claimed.Load()))
	if s.urgent.Load() > 0 {
		wait = yieldTime
	}
	if wait <= 0 {
		return 0
	}
	if s.yielding.IsZero() {
		s.yielding = now
	}
	if now.Sub(s.yielding) >= maxYield {
		return 0
	}
	return wait
}
