package sandbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestCommandsBeginInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &startQueue{make(chan struct{}, 1)}
		var order []int
		done := make(chan struct{}, 5)
		first := turns.take(t.Context())
		for i := range 5 {
			go func() {
				end := turns.take(t.Context())
				order = append(order, i) // one at a time
				end()
				done <- struct{}{}
			}()
			synctest.Wait() // in this order
		}
		first()
		for range 5 {
			<-done
		}
		for i, got := range order {
			if got != i {
				t.Fatalf("they began in the order %v", order)
			}
		}
	})
}

func TestALongCommandKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &startQueue{make(chan struct{}, 1)}
		long := turns.take(t.Context())
		began := time.Now()
		end := turns.take(t.Context())
		if waited := time.Since(began); waited != beginning {
			t.Errorf("waited %v, want %v", waited, beginning)
		}
		long() // it has given its turn up before, and must not give up another's
		late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		turns.take(late)()
		if late.Err() == nil {
			t.Error("two had the only turn")
		}
		end()
		turns.take(t.Context())()
	})
}
