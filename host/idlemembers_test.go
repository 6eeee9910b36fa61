package host

import (
	"testing"

	"github.com/flynnhost/flynn/host/store"
)

// TestADrainedHostHandsOver has a host drained through another one in the middle of a turn. The turn ends where it began; all that comes later,
// through whichever host, is answered by the other, until the drain is undone.
func TestADrainedHostHandsOver(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts["a"], p.hosts["b"]
	p.eventually("the first has the schedules", func() bool { return p.owner(store.ScheduleOwner) == "a" })
	p.say(a, "e1", "ann")
	answer := p.call()
	if err := b.store.Drain(t.Context(), "a", true); err != nil {
		t.Fatal(err)
	}
	p.eventually("the other has the schedules", func() bool { return p.owner(store.ScheduleOwner) == "b" })
	p.say(a, "e2", "bob")
	p.call() <- "2 of the other"
	p.answered("2 of the other")
	if o := p.owner(conversationKey("ann")); o != "a" {
		t.Errorf("what has begun belongs to %q", o)
	}
	answer <- "1 of the first"
	p.answered("1 of the first", "2 of the other")
	p.say(a, "e3", "ann")
	p.call() <- "3 of the other"
	p.answered("1 of the first", "2 of the other", "3 of the other")
	for _, c := range []string{"ann", "bob"} {
		if o := p.owner(conversationKey(c)); o != "b" {
			t.Errorf("the conversation of %s belongs to %q", c, o)
		}
	}
	if err := b.store.Drain(t.Context(), "a", false); err != nil {
		t.Fatal(err)
	}
	p.eventually("the first gets keys", func() bool {
		_, done, err := a.member.Enter(t.Context(), conversationKey("new"), nil)
		if err == nil {
			done()
		}
		return err == nil
	})
	p.say(a, "e4", "zoe")
	p.call() <- "4 of the first"
	p.answered("1 of the first", "2 of the other", "3 of the other", "4 of the first")
	if o := p.owner(conversationKey("zoe")); o != "a" {
		t.Errorf("what the first takes after the drain belongs to %q", o)
	}
}
