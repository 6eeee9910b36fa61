package container

// Phase is where a container is in its life.
type Phase string

// The phases. Nothing leaves Detached and Gone.
const (
	Starting Phase = "starting" // being made; no command reaches it
	Serving  Phase = "serving"
	Pausing  Phase = "pausing" // about to stand still, unless a call comes first
	Paused   Phase = "paused"  // what runs in it stands still until the next call
	Ending   Phase = "ending"  // being removed
	Detached Phase = "detached"
	Gone     Phase = "gone" // removed
)

// Event is something that happens to a container, or is asked of it.
type Event string

// The events.
const (
	Served    Event = "served"    // its supervisor answers: it was made, or adopted
	Entered   Event = "entered"   // a call begins
	Returned  Event = "returned"  // a call has ended
	Idled     Event = "idled"     // it is to stand still
	Stilled   Event = "stilled"   // what runs in it is paused
	Woken     Event = "woken"     // what runs goes on
	Dismissed Event = "dismissed" // it is to end unless a call is under way
	Ended     Event = "ended"     // it is to end, or its connection is lost
	Left      Event = "left"      // this host leaves it to a later one
	Removed   Event = "removed"   // the engine does not have it any more
)

// Life is the state of one container. It is a plain value: what is done about a step, and under which lock, is the caller's affair.
type Life struct {
	Phase Phase
	Calls int // under way
}

// Live reports whether calls may begin.
func (l Life) Live() bool { return l.Phase == Serving || l.Phase == Pausing || l.Phase == Paused }

// Step returns the state after an event. ok is false where the event cannot happen, or comes too late, and then nothing changes.
func (l Life) Step(e Event) (next Life, ok bool) {
	to := func(p Phase, from ...Phase) (Life, bool) {
		for _, f := range from {
			if l.Phase == f {
				return Life{p, l.Calls}, true
			}
		}
		return l, false
	}
	switch e {
	case Served:
		return to(Serving, Starting)
	case Entered:
		if l.Live() {
			return Life{l.Phase, l.Calls + 1}, true
		}
	case Returned:
		if l.Calls > 0 {
			return Life{l.Phase, l.Calls - 1}, true
		}
	case Idled:
		if l.Calls == 0 {
			return to(Pausing, Serving)
		}
	case Stilled:
		if l.Calls == 0 {
			return to(Paused, Pausing)
		}
	case Woken:
		return to(Serving, Pausing, Paused)
	case Dismissed:
		if l.Calls == 0 {
			return to(Ending, Serving, Pausing, Paused)
		}
	case Ended:
		return to(Ending, Starting, Serving, Pausing, Paused)
	case Left:
		return to(Detached, Serving)
	case Removed:
		return to(Gone, Ending)
	}
	return l, false
}
