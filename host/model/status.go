package model

import (
	"maps"
	"slices"
	"time"
)

// State is the state of a breaker.
type State string

// The states of a breaker.
const (
	Closed   State = "closed"    // calls pass
	Open     State = "open"      // calls fail at once, until Until
	HalfOpen State = "half_open" // the next call is a probe, or one is under way
)

// Status is the state of a tier's model.
type Status struct {
	Tier     string
	Provider string
	Model    string
	State    State
	Until    time.Time // of an open breaker
	Failures int       // in a row
	Last     Kind      // the class of the latest failure; "" after an answer
}

// Status returns the states of the models, by tier.
func (s *Set) Status() []Status {
	now := time.Now()
	var out []Status
	for _, name := range slices.Sorted(maps.Keys(s.tiers)) {
		t := s.tiers[name]
		st := t.breaker.status(now)
		st.Tier, st.Provider, st.Model = name, t.cfg.Provider, t.cfg.Model
		out = append(out, st)
	}
	return out
}

func (b *breaker) status(now time.Time) Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := Status{State: Closed, Failures: b.failures}
	if b.last != nil {
		st.Last = b.last.Kind
	}
	switch {
	case b.open == 0:
	case now.Before(b.until):
		st.State, st.Until = Open, b.until
	default:
		st.State = HalfOpen
	}
	return st
}
