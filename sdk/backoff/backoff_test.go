package backoff

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"
)

func TestDelayDoubles(t *testing.T) {
	for failures, most := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 7: time.Minute, 1000: time.Minute, math.MaxInt: time.Minute,
	} {
		for range 100 {
			if d := Delay(failures, time.Second, time.Minute); d < most/2 || d > most {
				t.Errorf("after %d failures: %s, want between %s and %s", failures, d, most/2, most)
			}
		}
	}
	if d := Delay(3, 0, 0); d != 0 {
		t.Errorf("without a wait: %s", d)
	}
}

func TestFailuresAreForgotten(t *testing.T) {
	b := Backoff{First: time.Second, Most: time.Hour}
	for range 5 {
		b.Failed(time.Second)
	}
	if d := b.Failed(time.Second); b.Failures() != 6 || d < 16*time.Second {
		t.Errorf("after %d failures: %s", b.Failures(), d)
	}
	if d := b.Failed(time.Minute + 1); b.Failures() != 1 || d > time.Second {
		t.Errorf("after a good minute: %d failures, %s", b.Failures(), d)
	}
	b.Failed(0)
	if b.Reset(); b.Failures() != 0 {
		t.Errorf("after a reset: %d failures", b.Failures())
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	if err := Sleep(t.Context(), 0); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
