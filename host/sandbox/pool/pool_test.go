package pool

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// item is something that takes a while to make.
type item struct {
	kind string
	born time.Time
	dead atomic.Bool
}

func (i *item) Dead() bool      { return i.dead.Load() }
func (i *item) Born() time.Time { return i.born }

// scene is a set with what became of its items.
type scene struct {
	*Set[*item]

	mu      sync.Mutex
	made    int
	ended   []*item
	failing error
	memory  Memory
}

const (
	making = 300 * time.Millisecond // what each item takes
	oldAge = time.Hour
)

// within runs a test on a set that is kept full, in the bubble's time.
func within(t *testing.T, test func(t *testing.T, s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{memory: Memory{Available: 1}}
		s.Set = New(Config[*item]{
			MaxAge: oldAge, Log: slog.New(slog.DiscardHandler),
			Discard: func(i *item) { s.set(func() { s.ended = append(s.ended, i) }) },
			Memory: func() (Memory, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.memory, nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		test(t, s)
		cancel()
		running.Wait()
	})
}

func (s *scene) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// wish asks for that many of a kind.
func (s *scene) wish(kind string, size int) Wish[*item] {
	return Wish[*item]{Kind: kind, Size: size, Make: func(context.Context) (*item, time.Duration, error) {
		time.Sleep(making) // in the bubble's time
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.failing != nil {
			return nil, making, s.failing
		}
		s.made++
		return &item{kind: kind, born: time.Now()}, making, nil
	}}
}

// expect looks at the stats once that much time has passed.
func (s *scene) expect(t *testing.T, after time.Duration, want Stats) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	got := s.Stats()
	if misses := got.Misses[MissEmpty] + got.Misses[MissNoPool]; misses != want.Misses["any"] {
		t.Errorf("%d misses, want %d", misses, want.Misses["any"])
	}
	got.Misses, want.Misses = nil, nil
	if got.Ready != want.Ready || got.Wanted != want.Wanted || got.Hits != want.Hits || got.Refills != want.Refills || got.Failures != want.Failures ||
		got.Drained != want.Drained || got.Replaced != want.Replaced || got.Pressed != want.Pressed {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTakenItemsAreMadeAnew(t *testing.T) {
	within(t, func(t *testing.T, s *scene) {
		s.Want([]Wish[*item]{s.wish("a", 1), s.wish("b", 1), s.wish("a", 1)}, 100)
		s.expect(t, time.Minute, Stats{Ready: 3, Wanted: 3, Refills: 3})
		for _, c := range []struct {
			kind string
			miss Miss
		}{{"a", ""}, {"a", ""}, {"a", MissEmpty}, {"b", ""}, {"c", MissNoPool}} {
			i, miss := s.Take(c.kind)
			if s.Count(miss); miss != c.miss || miss == "" && i.kind != c.kind || miss != "" && i != nil {
				t.Errorf("took %+v of %s, miss %q", i, c.kind, miss)
			}
		}
		s.expect(t, 0, Stats{Wanted: 3, Refills: 3, Hits: 3, Misses: map[Miss]int64{"any": 2}})
		s.expect(t, time.Minute, Stats{Ready: 3, Wanted: 3, Refills: 6, Hits: 3, Misses: map[Miss]int64{"any": 2}})
	})
}

func TestTheDeadAndTheOldAreReplaced(t *testing.T) {
	within(t, func(t *testing.T, s *scene) {
		s.Want([]Wish[*item]{s.wish("a", 2)}, 100)
		s.expect(t, time.Minute, Stats{Ready: 2, Wanted: 2, Refills: 2})
		i, _ := s.Take("a")
		s.Put("a", i)
		i.dead.Store(true)
		if next, miss := s.Take("a"); miss != "" || next == i || next.Dead() {
			t.Errorf("took %+v, miss %q", next, miss)
		}
		s.expect(t, time.Minute, Stats{Ready: 2, Wanted: 2, Refills: 4, Replaced: 1})
		s.expect(t, oldAge, Stats{Ready: 2, Wanted: 2, Refills: 6, Replaced: 3})
		if len(s.ended) != 3 || s.ended[0] != i {
			t.Errorf("%d were ended", len(s.ended))
		}
	})
}

func TestOtherWishesEndWhatIsNotWantedAnyMore(t *testing.T) {
	within(t, func(t *testing.T, s *scene) {
		s.Want([]Wish[*item]{s.wish("a", 2), s.wish("b", 2)}, 100)
		s.expect(t, time.Minute, Stats{Ready: 4, Wanted: 4, Refills: 4})
		taken, _ := s.Take("b")
		s.expect(t, time.Minute, Stats{Ready: 4, Wanted: 4, Refills: 5}) // what was taken is replaced
		s.Want([]Wish[*item]{s.wish("a", 1)}, 100)
		s.Put("b", taken) // nobody wants it back
		s.expect(t, time.Minute, Stats{Ready: 1, Wanted: 1, Refills: 5, Drained: 3})
		s.Close()
		s.expect(t, time.Minute, Stats{Wanted: 1, Refills: 5, Drained: 3})
		if len(s.ended) != 5 {
			t.Errorf("%d were ended", len(s.ended))
		}
	})
}

func TestShortMemoryEndsWhatIsThere(t *testing.T) {
	within(t, func(t *testing.T, s *scene) {
		s.Want([]Wish[*item]{s.wish("a", 2)}, 100)
		s.expect(t, time.Minute, Stats{Ready: 2, Wanted: 2, Refills: 2})
		s.set(func() { s.memory.Available = 0.01 })
		s.expect(t, time.Minute, Stats{Wanted: 2, Refills: 2, Drained: 2, Pressed: true})
		s.set(func() { s.memory.Available = 0.5 })
		s.expect(t, time.Minute, Stats{Ready: 2, Wanted: 2, Refills: 4, Drained: 2})
	})
}

// A container that cannot be made is tried again; one that would be of no use is not, until something changes.
func TestWhatCannotBeMade(t *testing.T) {
	within(t, func(t *testing.T, s *scene) {
		s.set(func() { s.failing = errors.New("no engine") })
		s.Want([]Wish[*item]{s.wish("a", 1)}, 100)
		s.expect(t, 2900*time.Millisecond, Stats{Wanted: 1, Failures: 2})
		s.set(func() { s.failing = nil })
		s.expect(t, 10*time.Second, Stats{Ready: 1, Wanted: 1, Failures: 2, Refills: 1})
		s.set(func() { s.failing = ErrNotNow })
		if _, miss := s.Take("a"); miss != "" {
			t.Errorf("miss %q", miss)
		}
		s.expect(t, time.Hour/2, Stats{Wanted: 1, Failures: 2, Refills: 1})
		s.set(func() { s.failing = nil })
		s.Want([]Wish[*item]{s.wish("a", 1)}, 100)
		s.expect(t, time.Minute, Stats{Ready: 1, Wanted: 1, Failures: 2, Refills: 2})
	})
}

// Waiting callers go first, but not for ever.
func TestOthersGoFirst(t *testing.T) {
	within(t, func(t *testing.T, s *scene) {
		served := s.Hurry()
		s.Want([]Wish[*item]{s.wish("a", 1)}, 100)
		s.expect(t, maxYield-time.Millisecond, Stats{Wanted: 1})
		s.expect(t, making+2*yieldTime, Stats{Ready: 1, Wanted: 1, Refills: 1})
		served()
	})
}
