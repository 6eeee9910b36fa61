package compare

import "time"

// Report sums up compared decisions.
type Report struct {
	Policy   string        `json:"policy"`
	Digest   string        `json:"digest"` // of the module that was asked, its data and limits
	File     string        `json:"file"`   // SHA-256 of its file
	Exact    bool          `json:"exact"`  // it was the module that decided
	From     time.Time     `json:"from,omitzero"`
	To       time.Time     `json:"to,omitzero"`
	Read     int64         `json:"read"`
	Compared int64         `json:"compared"`
	Changed  int64         `json:"changed"`  // in answer; of an exact replay in anything
	Looser   int64         `json:"looser"`   // of these, those that allow what was not allowed
	Reasons  int64         `json:"reasons"`  // same answer, for another reason
	Suspects int64         `json:"suspects"` // of an exact replay of a warm policy: other fuel, so hidden state is suspected
	Skipped  []Skip        `json:"skipped,omitempty"`
	Groups   []Group       `json:"groups,omitempty"`
	FuelWas  Fuel          `json:"fuel_was"`
	FuelIs   Fuel          `json:"fuel_is"`
	Took     time.Duration `json:"took_ns"`
}

// Share is the part of the compared decisions that changed, from 0 to 1.
func (r *Report) Share() float64 { return share(r.Changed, r.Compared) }

// Group is decisions that changed alike.
type Group struct {
	Policy   string    `json:"policy"`
	Kind     string    `json:"kind"` // route or tool
	Change   Kind      `json:"change"`
	Effect   Effect    `json:"effect"`
	Was      string    `json:"was"`
	WasWhy   string    `json:"was_why,omitempty"`
	Is       string    `json:"is"`
	IsWhy    string    `json:"is_why,omitempty"`
	Detail   string    `json:"detail,omitempty"`
	Count    int64     `json:"count"`
	Share    float64   `json:"share"` // of the compared decisions
	Examples []Example `json:"examples,omitempty"`
}

// Example is one decision of a group.
type Example struct {
	ID      int64     `json:"id,omitempty"` // in the decision log; 0 when it is not known
	At      time.Time `json:"at"`
	Channel string    `json:"channel"`
	Sender  string    `json:"sender"`
	Tool    string    `json:"tool,omitempty"`
}

// Skip is decisions that could not be compared.
type Skip struct {
	Why   string `json:"why"`
	Count int64  `json:"count"`
}

// Fuel is what decisions cost.
type Fuel struct {
	Total int64 `json:"total"`
	Max   int64 `json:"max"`
}

func (f *Fuel) add(units int64) {
	f.Total += units
	f.Max = max(f.Max, units)
}

func (f *Fuel) join(o Fuel) {
	f.Total += o.Total
	f.Max = max(f.Max, o.Max)
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
