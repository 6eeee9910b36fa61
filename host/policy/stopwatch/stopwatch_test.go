package stopwatch

import (
	"testing"
	"time"
)

// TestAgreesWithTheClock: what the watch says lies between what the clock says inside of it and around it, whichever of the two it goes by.
func TestAgreesWithTheClock(t *testing.T) {
	w := New()
	for _, way := range []string{"at first", "later"} {
		outer := time.Now()
		m := w.Start()
		inner := time.Now()
		for time.Since(inner) < 30*time.Millisecond {
		}
		least := time.Since(inner)
		took := w.Since(m)
		most := time.Since(outer)
		const slack = time.Millisecond // of the rate, and the kernel may slew the clock
		if took < least-slack || took > most+slack {
			t.Errorf("%s: %v, not from %v to %v", way, took, least, most)
		}
	}
	t.Logf("a counter: %v; it is gone by: %v", w.steady, w.rate.Load() != 0)
}

func TestNeverNegative(t *testing.T) {
	w := New()
	for _, m := range []Mark{{at: 1 << 62, rate: 1 << 62}, w.Start()} {
		if took := w.Since(m); took < 0 {
			t.Errorf("%v since %v", took, m)
		}
	}
}

func TestWithoutACounter(t *testing.T) {
	w := New()
	w.steady = false
	m := w.Start()
	for w.Since(m) < 2*apart {
	}
	if w.rate.Load() != 0 {
		t.Error("a rate of no counter")
	}
}

func BenchmarkMeasurement(b *testing.B) {
	w := New()
	for m := w.Start(); w.Since(m) < 2*apart; {
	}
	for b.Loop() {
		_ = w.Since(w.Start())
	}
}
