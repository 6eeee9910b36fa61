package keyed

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOrderWithinAKey pushes from many goroutines and checks that each key's items come in order, one worker at a time.
func TestOrderWithinAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		got := map[string][]int{}
		busy := map[string]*atomic.Int32{"a": {}, "b": {}, "c": {}}
		g := New(2, func(_ context.Context, key string, items []int) []int {
			if busy[key].Add(1) != 1 {
				t.Error("two workers of one key")
			}
			defer busy[key].Add(-1)
			mu.Lock()
			got[key] = append(got[key], items[0])
			mu.Unlock()
			return items[1:] // one at a time, the rest goes back in front
		})
		var run sync.WaitGroup
		run.Go(func() { g.Run(ctx) })
		var push sync.WaitGroup
		for key := range busy {
			push.Go(func() {
				for i := range 100 {
					g.Push(key, i)
				}
			})
		}
		push.Wait()
		synctest.Wait()
		cancel()
		run.Wait()
		for key := range busy {
			if len(got[key]) != 100 || !slices.IsSorted(got[key]) {
				t.Errorf("key %s: %v", key, got[key])
			}
		}
		if g.Queued() != 0 {
			t.Errorf("%d items are left", g.Queued())
		}
	})
}

func TestParallelIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var now, most atomic.Int32
		hold := make(chan struct{})
		g := New(3, func(context.Context, string, []int) []int {
			most.Store(max(most.Load(), now.Add(1)))
			<-hold
			now.Add(-1)
			return nil
		})
		for i := range 10 {
			g.Push(string(rune('a'+i)), i) // before Run: waits for it
		}
		var run sync.WaitGroup
		run.Go(func() { g.Run(ctx) })
		synctest.Wait()
		if now.Load() != 3 {
			t.Errorf("%d keys are worked on, want 3", now.Load())
		}
		close(hold)
		synctest.Wait()
		cancel()
		run.Wait()
		if most.Load() != 3 {
			t.Errorf("at most %d keys were worked on, want 3", most.Load())
		}
	})
}

func TestEndOfContextEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g := New(1, func(ctx context.Context, _ string, items []int) []int {
			<-ctx.Done()
			return items
		})
		g.Push("a", 1)
		g.Push("b", 2) // waits for the slot
		var run sync.WaitGroup
		run.Go(func() { g.Run(ctx) })
		synctest.Wait()
		cancel()
		run.Wait()
		g.Push("c", 3)
		synctest.Wait()
	})
}
