package pairing

import (
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/access/pairings"
)

// TestTheClockGoesBack asks for what was to last an hour five hours before it began.
func TestTheClockGoesBack(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	p := pairings.Pairing{State: pairings.Open, Asked: noon, Expires: noon.Add(time.Hour), Until: noon.Add(time.Hour)}
	denied := pairings.Pairing{State: pairings.Denied, Asked: noon, Decided: noon.Add(time.Minute), Until: noon.Add(time.Hour)}
	g := pairings.Guesses{Since: noon, Locked: noon.Add(lockTime)}
	for _, c := range []struct {
		now  time.Time
		want bool
	}{{noon.Add(30 * time.Minute), true}, {noon.Add(-5 * time.Hour), false}, {noon.Add(2 * time.Hour), false}} {
		if valid(p, c.now) != c.want || quieted(p, c.now) != c.want || quieted(denied, c.now) != c.want || barred(g, c.now) != c.want {
			t.Errorf("at %s: a code stands %v, quiet %v and %v, locked out %v; want %v", c.now.Format(time.TimeOnly),
				valid(p, c.now), quieted(p, c.now), quieted(denied, c.now), barred(g, c.now), c.want)
		}
	}
	if barred(pairings.Guesses{}, noon) {
		t.Error("one who has not guessed is locked out")
	}
}
