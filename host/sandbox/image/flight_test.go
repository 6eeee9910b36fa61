package image

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errWork = errors.New("work failed")

func TestFlights(t *testing.T) {
	t.Run("shared, and its error too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := flights{timeout: time.Hour}
			var runs atomic.Int32
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					err := f.do(t.Context(), "k", func(context.Context) error { runs.Add(1); time.Sleep(time.Second); return errWork })
					if !errors.Is(err, errWork) {
						t.Errorf("got %v", err)
					}
				})
			}
			all.Wait()
			if err := f.do(t.Context(), "k", func(context.Context) error { runs.Add(1); return nil }); err != nil || runs.Load() != 2 {
				t.Errorf("afterwards: %v, %d runs", err, runs.Load())
			}
		})
	})
	t.Run("keys are apart", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := flights{timeout: time.Hour}
			began := time.Now()
			var all sync.WaitGroup
			for _, key := range []string{"a", "b"} {
				all.Go(func() {
					_ = f.do(t.Context(), key, func(context.Context) error { time.Sleep(time.Second); return nil })
				})
			}
			all.Wait()
			if took := time.Since(began); took != time.Second {
				t.Errorf("took %v", took)
			}
		})
	})
	t.Run("the last to leave cancels, and waits for the end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := flights{timeout: time.Hour}
			var ended atomic.Bool
			work := func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Minute) // tidies up
				ended.Store(true)
				return ctx.Err()
			}
			first, leaveFirst := context.WithCancel(t.Context())
			second, leaveSecond := context.WithCancel(t.Context())
			failed := make(chan error, 2)
			go func() { failed <- f.do(first, "k", work) }()
			synctest.Wait()
			go func() { failed <- f.do(second, "k", work) }()
			synctest.Wait()
			leaveFirst()
			if err := <-failed; !errors.Is(err, context.Canceled) || ended.Load() {
				t.Errorf("first: %v, ended %v", err, ended.Load())
			}
			leaveSecond()
			synctest.Wait()
			// A caller that comes while it tidies up gets a run of its own afterwards.
			ran := make(chan bool, 1)
			go func() {
				_ = f.do(t.Context(), "k", func(context.Context) error { ran <- ended.Load(); return nil })
			}()
			if err := <-failed; !errors.Is(err, context.Canceled) || !ended.Load() {
				t.Errorf("second: %v, ended %v", err, ended.Load())
			}
			if !<-ran {
				t.Error("the next run began before the end")
			}
		})
	})
	t.Run("too long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := flights{timeout: time.Hour}
			err := f.do(t.Context(), "k", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "not done after 1h0m0s: context deadline exceeded" {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("left before it began", func(t *testing.T) {
		f := flights{timeout: time.Hour}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if err := f.do(ctx, "k", func(context.Context) error { t.Error("it ran"); return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
