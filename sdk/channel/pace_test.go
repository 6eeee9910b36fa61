package channel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPaceGoesRound has one conversation that always has more to say, and others that come and go.
func TestPaceGoesRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPace(3, 2*time.Second)
		var mu sync.Mutex
		var order strings.Builder
		var all sync.WaitGroup
		began := time.Now()
		say := func(name string, n int) {
			all.Go(func() {
				for range n {
					if err := p.Wait(t.Context(), name); err != nil {
						t.Error(err)
					}
					mu.Lock()
					order.WriteString(name)
					mu.Unlock()
				}
			})
			synctest.Wait()
		}
		say("a", 12)
		say("b", 3)
		say("c", 1)
		time.Sleep(5 * time.Second)
		say("d", 2)
		all.Wait()
		if got := order.String(); got != "aaabcdabdabaaaaaaa" {
			t.Errorf("turns went to %s", got)
		}
		if took := time.Since(began); took != 15*2*time.Second { // 18 turns, three of them at once
			t.Errorf("18 turns took %s", took)
		}
	})
}

// TestPaceKeepsThePlaceOfWhoGaveUp has forty conversations whose patience ends long before all of them have had a turn.
func TestPaceKeepsThePlaceOfWhoGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPace(1, 2*time.Second)
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				began := time.Now()
				for tries := 1; ; tries++ {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					err := p.Wait(ctx, fmt.Sprint(i))
					cancel()
					if err == nil {
						break
					}
					time.Sleep(time.Duration(i%7) * 100 * time.Millisecond)
				}
				if took := time.Since(began); took > 90*time.Second { // 80 s, and what is lost between two tries
					t.Errorf("conversation %d waited %s for its first turn", i, took)
				}
			})
		}
		all.Wait()
	})
}

// TestPatienceLeavesTimeToAnswer compares the end of waits with that of the call.
func TestPatienceLeavesTimeToAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ending, stop := context.WithCancel(t.Context())
		until := func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			release := context.AfterFunc(ending, cancel)
			return ctx, func() { release(); cancel() }
		}
		call, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ctx, end := withPatience(call, until)
		defer end()
		p := NewPace(1, time.Hour)
		if err := p.Wait(Patience(ctx), "a"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := p.Wait(Patience(ctx), "a"); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || time.Since(began) != 45*time.Second {
			t.Errorf("the wait ended after %s: %v; the call: %v", time.Since(began), err, ctx.Err())
		}
		ctx, end = withPatience(t.Context(), until)
		defer end()
		stop()
		synctest.Wait()
		if Patience(ctx).Err() == nil || ctx.Err() != nil {
			t.Error("the end of the plugin ends its waits, and not its calls")
		}
	})
}

// TestSeriesStopsAndGoesOn counts the messages of a series of forty that take a second each.
func TestSeriesStopsAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown []int
		fail := map[int]bool{17: true}
		s, calls := Send{}, 0
		for {
			calls++
			sent, err := Series(t.Context(), s, 40, func(_ context.Context, i int) (string, error) {
				if fail[i] {
					delete(fail, i)
					return "", errors.New("slow down")
				}
				time.Sleep(time.Second)
				shown = append(shown, i)
				return fmt.Sprint(i), nil
			}, func(err error) (Sent, error) { return Sent{Outcome: OutcomeNotSent, RetryAfter: time.Second}, err })
			if sent.Outcome == OutcomeSent {
				break
			}
			if sent.Outcome != OutcomeNotSent || sent.Resume == s.Resume || len(sent.MessageIDs) == 0 || (err != nil) != (sent.RetryAfter > 0) {
				t.Fatalf("%+v, %v", sent, err)
			}
			s.Resume = sent.Resume
		}
		for i, got := range shown {
			if i != got {
				t.Fatalf("shown %v", shown)
			}
		}
		if len(shown) != 40 || calls != 9 { // 5, 5, 5, 2 and the failure, 5, 5, 5, 5, 3
			t.Errorf("%d messages in %d calls", len(shown), calls)
		}
	})
}
