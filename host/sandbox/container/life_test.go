package container

import (
	"math/rand/v2"
	"slices"
	"testing"
)

var events = []Event{Served, Entered, Returned, Idled, Stilled, Woken, Dismissed, Ended, Left, Removed}

// TestLifeOfRandomEvents feeds containers whatever may happen to them, in any order, and checks what must hold.
func TestLifeOfRandomEvents(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		l := Life{Phase: Starting}
		var history []Event
		calls, ends, removals := 0, 0, 0
		for range 40 {
			e := events[random.IntN(len(events))]
			before := l
			next, ok := l.Step(e)
			history = append(history, e)
			fail := func(what string) {
				t.Fatalf("seed %d: %s: %v, then %s: %v (%v); history %v", seed, what, before, e, next, ok, history)
			}
			if !ok && next != before {
				fail("what cannot happen changed something")
			}
			if (before.Phase == Gone || before.Phase == Detached) && next.Phase != before.Phase {
				fail("it came back")
			}
			if ok {
				switch e {
				case Entered:
					if calls++; !before.Live() {
						fail("a call entered a container that serves none")
					}
				case Returned:
					calls--
				case Ended, Dismissed, Left:
					ends++
				case Removed:
					removals++
				}
			}
			switch {
			case next.Calls != calls:
				fail("calls were miscounted")
			case ends > 1 || removals > 1:
				fail("it ended twice")
			case removals > ends:
				fail("it was removed without an end")
			case e == Dismissed && ok && calls > 0:
				fail("it was dismissed under a call")
			case next.Phase == Paused && before.Phase != Paused && calls > 0:
				fail("it was paused under a call")
			case e == Ended && next.Live():
				fail("it outlives its end")
			case next.Live() && ends > 0:
				fail("it serves after its end")
			}
			l = next
		}
	}
}

// TestLifeHasNoDeadEnd: whatever has happened, a container can be ended and removed, unless it was left to a later host.
func TestLifeHasNoDeadEnd(t *testing.T) {
	seen := []Life{{Phase: Starting}}
	for i := 0; i < len(seen); i++ {
		for _, e := range events {
			if next, ok := seen[i].Step(e); ok && next.Calls < 3 && !slices.Contains(seen, next) {
				seen = append(seen, next)
			}
		}
	}
	phases := map[Phase]bool{}
	for _, l := range seen {
		phases[l.Phase] = true
		ended, _ := l.Step(Ended)
		removed, _ := ended.Step(Removed)
		if removed.Phase != Gone && removed.Phase != Detached {
			t.Errorf("%v cannot be removed: %v", l, removed)
		}
	}
	if len(phases) != 7 {
		t.Errorf("only these phases are reached: %v", phases)
	}
}
