package pool

import (
	"context"
	"time"
)

// shelf holds the items of one kind. The lock of the set guards it.
type shelf[T Item] struct {
	kind  string
	make  func(ctx context.Context) (T, time.Duration, error)
	size  int
	ready []T // oldest first

	failures int       // failed attempts in a row
	until    time.Time // time of the next attempt
}

// take removes the newest living item; it also returns the dead ones that it finds.
func (f *shelf[T]) take() (item T, found bool, waste []T) {
	for len(f.ready) > 0 {
		last := len(f.ready) - 1
		item, f.ready = f.ready[last], f.ready[:last]
		if !item.Dead() {
			return item, true, waste
		}
		waste = append(waste, item)
	}
	var none T
	return none, false, waste
}

// cull removes the dead items, and those made before a time.
func (f *shelf[T]) cull(before time.Time) (old []T) {
	kept := f.ready[:0]
	for _, item := range f.ready {
		if item.Dead() || item.Born().Before(before) {
			old = append(old, item)
		} else {
			kept = append(kept, item)
		}
	}
	clear(f.ready[len(kept):])
	f.ready = kept
	return old
}

// shrink removes the oldest items until at most n are left.
func (f *shelf[T]) shrink(n int) (surplus []T) {
	cut := max(0, len(f.ready)-n)
	surplus, f.ready = f.ready[:cut:cut], f.ready[cut:]
	return surplus
}

// The delay between attempts to make an item.
const (
	refillPause    = 2 * time.Second
	maxRefillPause = time.Minute
)

// failed postpones the next attempt, longer each time.
func (f *shelf[T]) failed(now time.Time) {
	f.until = now.Add(min(refillPause<<min(f.failures, 5), maxRefillPause))
	f.failures++
}
