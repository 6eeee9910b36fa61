// Package journal has the types of what is recorded about policies: every decision with its facts, the modules in force, and what
// shadow policies would have changed.
//
// Start with Decision. Packages decisionlog, history and shadowlog write it, and package sqlite keeps it; this package does neither.
package journal

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Decision is one answer of routing or of a policy, with everything that it depended on.
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

// Listed is a decision with the turn's agent, channel and sender; they are empty if no turn took the message.
type Listed struct {
	Decision
	Agent, Channel string
	Sender         message.SenderKey
}

// DecisionFilter selects decisions; zero fields select all.
type DecisionFilter struct {
	ID                 int64
	Kind, Policy, Turn string
	Since, Until       time.Time // Until is the first moment that does not belong
	Limit              int
	// WithoutCalls leaves Calls empty, which take the longest to read.
	WithoutCalls bool
}

// Decisions is the decision log. Rows of a turn are written by CommitTurn.
type Decisions interface {
	AddDecisions(ctx context.Context, ds []Decision) error
	// ListDecisions returns the oldest decisions, a thousand if there is no limit.
	ListDecisions(ctx context.Context, f DecisionFilter) ([]Decision, error)
	// EachDecision returns any number of decisions in the order of their times, with few of them in memory. It does not block
	// writers, and ends with the first error.
	EachDecision(ctx context.Context, f DecisionFilter) iter.Seq2[Decision, error]
	// LatestDecisions returns the latest decisions whose ID is below before, latest first; before 0 is no bound. A thousand if there is no
	// limit.
	LatestDecisions(ctx context.Context, f DecisionFilter, before int64) ([]Listed, error)
}
