// Package pool keeps items ready that take long to make, so that callers hardly wait for one. Each item is used once.
//
// Start with Set: Want sets how many items to keep, Take and Put move them, and Run makes missing ones, one at a time (refill.go): within a
// share of the machine's CPU time (budget.go), after waiting callers were served, and not while memory is short (memory.go), in which case
// the ready items are ended. Old and dead items are replaced.
//
// The package does not know what the items are. For package sandbox they are containers without a session; it decides how they are made,
// assigned to a session and ended.
package pool

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Item is an item of a pool.
type Item interface {
	// Dead reports whether the item can no longer be used. It is called under a lock and must not block.
	Dead() bool
	// Born returns when it was made.
	Born() time.Time
}

// Config configures a Set.
type Config[T Item] struct {
	// Discard ends an unused item. It must not block.
	Discard func(T)
	// MaxAge is the age at which an item is replaced.
	MaxAge time.Duration
	// Memory returns the state of the machine's memory; nil asks the kernel.
	Memory func() (Memory, error)
	// Inspect is the interval between checks of the memory and of the items' age; 5 s by default.
	Inspect time.Duration
	Log     *slog.Logger
}

// Wish is the number of items of one kind to keep. Two wishes for the same kind add up.
type Wish[T Item] struct {
	Kind string
	Size int
	// Make makes an item and returns the CPU time that it took. ErrNotNow postpones it for a while.
	Make func(ctx context.Context) (T, time.Duration, error)
}

// ErrNotNow is returned by Make if an item would be useless at the moment.
var ErrNotNow = errors.New("nothing is to be kept ready at the moment")

// Set holds the items of all kinds.
type Set[T Item] struct {
	config Config[T]
	kick   chan struct{} // wakes Run, buffered

	urgent  atomic.Int64 // callers that wait for an item, or for one to be made
	claimed atomic.Int64 // time of the last Take, in Unix nanoseconds

	mu       sync.Mutex // guards the fields below, never held over I/O
	byKind   map[string]*shelf[T]
	order    []*shelf[T] // in the order of the wishes
	budget   budget
	pressure pressure
	yielding time.Time // since when refilling has been giving way, or zero
	closed   bool
	counts   Stats
}

// Miss is the reason why a pool did not serve a caller.
type Miss string

// The reasons. Users of the package may add more.
const (
	MissNoPool Miss = "no_pool" // no items of this kind are kept
	MissEmpty  Miss = "empty"   // all were taken or have ended
)

// Stats are counters since the start, except Ready and Wanted, which are current.
type Stats struct {
	Ready, Wanted int
	Hits          int64
	Misses        map[Miss]int64
	Refills       int64 // items made
	Failures      int64 // items that could not be made
	Drained       int64 // ended because memory was short or others are wanted
	Replaced      int64 // ended because they were old or dead
	Pressed       bool  // whether memory is short
}

// New returns an empty set.
func New[T Item](c Config[T]) *Set[T] {
	c.Inspect = cmp.Or(c.Inspect, inspectEvery)
	if c.Memory == nil {
		c.Memory = readMemory
	}
	return &Set[T]{
		config: c, kick: make(chan struct{}, 1), byKind: make(map[string]*shelf[T]),
		counts: Stats{Misses: make(map[Miss]int64)},
	}
}

// Want changes what is kept, and the share of the machine's CPU time, of all cores, for refilling, from 0 to 1; 0 means a quarter.
func (s *Set[T]) Want(wishes []Wish[T], share float64) {
	s.mu.Lock()
	before := s.byKind
	s.byKind, s.order = make(map[string]*shelf[T]), nil
	s.budget.rate = rate(cmp.Or(share, defaultShare))
	var waste []T
	for _, w := range wishes {
		s.enter(w, before)
	}
	for kind, old := range before {
		if s.byKind[kind] == nil {
			waste = append(waste, old.shrink(0)...)
		}
	}
	for _, f := range s.order {
		waste = append(waste, f.shrink(f.size)...)
	}
	s.counts.Drained += int64(len(waste))
	s.mu.Unlock()
	s.discard(waste)
	s.wake()
}

// enter adds one wish, keeping the existing items. s.mu is held.
func (s *Set[T]) enter(w Wish[T], before map[string]*shelf[T]) {
	f := s.byKind[w.Kind]
	if f == nil {
		f = &shelf[T]{kind: w.Kind}
		if old := before[w.Kind]; old != nil {
			f.ready = old.ready
		}
		s.byKind[w.Kind] = f
		s.order = append(s.order, f)
	}
	f.make = w.Make
	f.size += w.Size
}

// Hurry announces a caller that waits for an item. The caller calls served when it has one.
func (s *Set[T]) Hurry() (served func()) {
	s.urgent.Add(1)
	return func() { s.urgent.Add(-1) }
}

// Take returns the newest living item of a kind, or the reason why there is none, and triggers a refill. The caller reports the outcome
// with Count.
func (s *Set[T]) Take(kind string) (item T, miss Miss) {
	s.mu.Lock()
	f := s.byKind[kind]
	if f == nil {
		s.mu.Unlock()
		return item, MissNoPool
	}
	item, found, dead := f.take()
	s.counts.Replaced += int64(len(dead))
	s.mu.Unlock()
	s.discard(dead)
	s.wake()
	if !found {
		return item, MissEmpty
	}
	s.claimed.Store(time.Now().UnixNano())
	return item, ""
}

// Count counts a served caller, or a miss.
func (s *Set[T]) Count(miss Miss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if miss == "" {
		s.counts.Hits++
	} else {
		s.counts.Misses[miss]++
	}
}

// Put adds an item, or ends it if no more of its kind are wanted.
func (s *Set[T]) Put(kind string, item T) {
	s.mu.Lock()
	f := s.byKind[kind]
	wanted := !s.closed && !s.pressure.on && f != nil && len(f.ready) < f.size
	if wanted {
		f.ready = append(f.ready, item)
	}
	s.mu.Unlock()
	if !wanted {
		s.config.Discard(item)
	}
}

// Close ends all items, for good.
func (s *Set[T]) Close() {
	s.mu.Lock()
	s.closed = true
	var all []T
	for _, f := range s.order {
		all = append(all, f.shrink(0)...)
	}
	s.mu.Unlock()
	s.discard(all)
}

// Stats returns the counters.
func (s *Set[T]) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.counts
	counts.Misses = maps.Clone(s.counts.Misses)
	counts.Pressed = s.pressure.on
	for _, f := range s.order {
		counts.Ready += len(f.ready)
		counts.Wanted += f.size
	}
	return counts
}

func (s *Set[T]) discard(items []T) {
	for _, item := range items {
		s.config.Discard(item)
	}
}

func (s *Set[T]) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
