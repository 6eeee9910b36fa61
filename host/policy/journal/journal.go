// Package journal has what is written down of policies: every decision with what it was based on, which modules were in force, and what
// shadow policies would have changed.
//
// Start with Decision. Packages decisionlog, history and shadowlog write it, and package sqlite keeps it; this package does neither.
package journal

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Decision is one answer of routing or of a policy, with everything that it was based on.
type Decision struct {
	ID     int64
	At     time.Time
	Kind   string // route_table, route, tool, enforce
	Turn   string
	Policy string // name
	Digest string // of the module, data, limits and meter
	File   string // SHA-256 of the module's file; "" in rows of an older flynn
	Frame  []byte
	Text   string          // the whole text, where the frame has only its beginning
	Args   json.RawMessage // of a tool call
	Calls  json.RawMessage // host calls and their answers, in order
	Raw    int64           // the module's answer in its own numbers
	Rule   uint32          // the number that the module gave as the reason
	Answer string
	Reason string
	Error  string
	Fuel   int64
	Nanos  int64
}

// DecisionFilter selects decisions; zero fields select all.
type DecisionFilter struct {
	ID                 int64
	Kind, Policy, Turn string
	Since, Until       time.Time // Until is the first moment that does not belong
	Limit              int
	// WithoutCalls leaves Calls empty, for who has no use for them: they take the longest to read.
	WithoutCalls bool
}

// Decisions is the decision log. Rows of a turn are written by CommitTurn.
type Decisions interface {
	AddDecisions(ctx context.Context, ds []Decision) error
	// ListDecisions returns the oldest decisions, a thousand if there is no limit.
	ListDecisions(ctx context.Context, f DecisionFilter) ([]Decision, error)
	// EachDecision goes over any number of decisions in the order of their times, and holds few of them at a time. Writers do
	// not wait for it. An error ends it.
	EachDecision(ctx context.Context, f DecisionFilter) iter.Seq2[Decision, error]
}
