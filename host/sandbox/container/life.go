package container

// Phase is the state of a container.
type Phase string

// The phases. Detached and Gone are final.
const (
	Starting Phase = "starting" // being created; no command reaches it
	Serving  Phase = "serving"
	Pausing  Phase = "pausing" // about to be paused, unless a call comes first
	Paused   Phase = "paused"  // its processes are stopped until the next call
	Ending   Phase = "ending"  // being removed
	Detached Phase = "detached"
	Gone     Phase = "gone" // removed
)

// Event is something that happens to a container or is requested of it.
type Event string

// The events.
const (
	Served    Event = "served"    // its supervisor answers, after creation or adoption
	Entered   Event = "entered"   // a call begins
	Returned  Event = "returned"  // a call has ended
	Idled     Event = "idled"     // a pause is requested
	Stilled   Event = "stilled"   // its processes are stopped
	Woken     Event = "woken"     // its processes run again
	Dismissed Event = "dismissed" // it ends unless a call is under way
	Ended     Event = "ended"     // its end is requested, or its connection is lost
	Left      Event = "left"      // this host leaves it to a later one
	Taken     Event = "taken"     // another host has taken it over
	Removed   Event = "removed"   // the engine has removed it
)

// Life is the state of one container. It is a plain value: the caller provides the lock and acts on the steps.
type Life struct {
	Phase Phase
	Calls int // under way
}

// Live reports whether calls may begin.
func (l Life) Live() bool { return l.Phase == Serving || l.Phase == Pausing || l.Phase == Paused }

// Step returns the state after an event. ok is false if the event is impossible in this state or comes too late; nothing changes then.
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
	case Taken:
		return to(Detached, Starting, Serving, Pausing, Paused, Ending)
	case Removed:
		return to(Gone, Ending)
	}
	return l, false
}
