// Package pool keeps things ready that take long to make, so that a caller hardly waits for one. Each is used once.
//
// Start with Set: Want says how many of what, Take and Put move them, and Run makes what is missing, one at a time (refill.go):
// within a share of the machine's time (budget.go), after the callers that wait at that moment, and not while memory is short (memory.go),
// which ends what is there. What is old or dead is replaced.
//
// The package does not know what it keeps. For package sandbox these are containers that belong to no session yet; how they are made,
// become a session's and end is decided there.
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

// Item is what is kept.
type Item interface {
	// Dead reports whether it is of no further use. It is called under a lock and must not wait.
	Dead() bool
	// Born is when it was made.
	Born() time.Time
}

// Config is what a Set needs.
type Config[T Item] struct {
	// Discard ends an item that nobody has used. It must not wait.
	Discard func(T)
	// MaxAge is when an item is replaced.
	MaxAge time.Duration
	// Memory says how the machine is off for memory. nil: the kernel is asked
	Memory func() (Memory, error)
	// Inspect is the time between two looks at the memory and the age of items. 5 s
	Inspect time.Duration
	Log     *slog.Logger
}

// Wish is a number of items of one kind that are to be kept. Two for the same kind add up.
type Wish[T Item] struct {
	Kind string
	Size int
	// Make makes an item, and says how much of the machine's time that took. ErrNotNow puts it off for a while.
	Make func(ctx context.Context) (T, time.Duration, error)
}

// ErrNotNow is returned by Make when no item would be of use at the moment.
var ErrNotNow = errors.New("nothing is to be kept ready at the moment")

// Set is the items that are kept, of all kinds.
type Set[T Item] struct {
	config Config[T]
	kick   chan struct{} // wakes Run, buffered

	urgent  atomic.Int64 // callers waiting for an item, or for one to be made
	claimed atomic.Int64 // when the latest was taken, in Unix nanoseconds

	mu       sync.Mutex // guards the fields below, never held over I/O
	byKind   map[string]*shelf[T]
	order    []*shelf[T] // as wished
	budget   budget
	pressure pressure
	yielding time.Time // since when refilling lets others go first, or zero
	closed   bool
	counts   Stats
}

// Miss says why a caller was not served.
type Miss string

// The reasons. Users of the package may add more.
const (
	MissNoPool Miss = "no_pool" // none is kept of the kind
	MissEmpty  Miss = "empty"   // all were taken, or ended
)

// Stats count since the start, but for Ready and Wanted, which are as of now.
type Stats struct {
	Ready, Wanted int
	Hits          int64
	Misses        map[Miss]int64
	Refills       int64 // items made
	Failures      int64 // items that could not be made
	Drained       int64 // ended because memory ran short or other ones are wanted
	Replaced      int64 // ended because they were old, or dead
	Pressed       bool  // whether memory is short
}

// New returns a set that keeps nothing.
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

// Want changes what is kept, and the share of the machine's time that refilling may take, over all its cores, from 0 to 1.
// 0: a quarter
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

// enter adds one wish, on top of what is there. s.mu is held.
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

// Take returns the newest item of a kind that is alive, or why there is none, and has another one made. What came of it is for
// Count.
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

// Count counts a caller that was served, or one that was not and why.
func (s *Set[T]) Count(miss Miss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if miss == "" {
		s.counts.Hits++
	} else {
		s.counts.Misses[miss]++
	}
}

// Put keeps an item, or ends it where none of its kind is wanted any more.
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

// Close ends everything that is kept, for good.
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

// Stats returns the counts.
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
