package compare

import "time"

// Report is the result of comparing decisions.
type Report struct {
	Policy   string        `json:"policy"`
	Digest   string        `json:"digest"` // of the module, its data and limits
	File     string        `json:"file"`   // SHA-256 of its file
	Exact    bool          `json:"exact"`  // the module is the one that decided
	From     time.Time     `json:"from,omitzero"`
	To       time.Time     `json:"to,omitzero"`
	Read     int64         `json:"read"`
	Compared int64         `json:"compared"`
	Changed  int64         `json:"changed"`  // in answer; of an exact replay in anything
	Looser   int64         `json:"looser"`   // of these, those that allow what was not allowed
	Reasons  int64         `json:"reasons"`  // same answer, for another reason
	Suspects int64         `json:"suspects"` // of an exact replay of a warm policy: decisions with other fuel, which points to hidden state
	Skipped  []Skip        `json:"skipped,omitempty"`
	Groups   []Group       `json:"groups,omitempty"`
	FuelWas  Fuel          `json:"fuel_was"`
	FuelIs   Fuel          `json:"fuel_is"`
	Took     time.Duration `json:"took_ns"`
}

// Share returns the part of the compared decisions that changed, from 0 to 1.
func (r *Report) Share() float64 { return share(r.Changed, r.Compared) }

// Key is what the decisions of a group have in common.
type Key struct {
	Policy string `json:"policy"`
	Kind   string `json:"kind"` // route or tool
	Change Kind   `json:"change"`
	Detail string `json:"detail,omitempty"` // the first host call that differs, or the difference in fuel
	Was    string `json:"was"`
	WasWhy string `json:"was_why,omitempty"`
	Is     string `json:"is"`
	IsWhy  string `json:"is_why,omitempty"`
}

// Group is decisions that changed alike.
type Group struct {
	Key
	Effect   Effect    `json:"effect"`
	Count    int64     `json:"count"`
	Share    float64   `json:"share"` // of the compared decisions
	Examples []Example `json:"examples,omitempty"`
}

// Example is one of the decisions of a group.
type Example struct {
	ID      int64     `json:"id,omitempty"` // in the decision log; 0 when it is not known
	At      time.Time `json:"at"`
	Channel string    `json:"channel"`
	Sender  string    `json:"sender"`
	Tool    string    `json:"tool,omitempty"`
}

// Skip counts decisions that could not be compared.
type Skip struct {
	Why   string `json:"why"`
	Count int64  `json:"count"`
}

// Fuel is the cost of decisions.
type Fuel struct {
	Total int64 `json:"total"`
	Max   int64 `json:"max"`
}

func (f *Fuel) add(units int64) {
	f.Total += units
	f.Max = max(f.Max, units)
}

// count adds a group to the sums.
func (r *Report) count(g *Group) {
	switch g.Change {
	case KindReason:
		r.Reasons += g.Count
	case KindWarm:
		r.Suspects += g.Count
	default:
		r.Changed += g.Count
		if g.Effect == Looser {
			r.Looser += g.Count
		}
	}
}
