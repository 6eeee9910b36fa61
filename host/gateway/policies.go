package gateway

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/observe/shadowlog"
	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/policy/compare"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/policy/meter"
)

// Rollback asks for an older module of a policy.
type Rollback struct {
	// To is the beginning of the module's SHA-256; "" is the module before the one in force.
	To string `json:"to,omitempty"`
	// Clear stops overriding the policy file instead.
	Clear bool `json:"clear,omitempty"`
}

// Policies shows the policies in force, and rolls them back. Their errors are store.ErrNotFound if there is no such policy.
type Policies interface {
	// Policies returns the chain in its order.
	Policies(ctx context.Context) ([]PolicyStatus, error)
	// Policy returns one of it with its history.
	Policy(ctx context.Context, name string) (PolicyDetail, error)
	// PolicyChanges returns the changes of a policy or, if name is empty, of all, latest first.
	PolicyChanges(ctx context.Context, name string) ([]journal.Change, error)
	// PolicySource returns the text files of a policy's folder: store.ErrNotFound if it is not at hand.
	PolicySource(ctx context.Context, name string) ([]author.SourceFile, error)
	// RollbackPolicy puts an older module in force: store.ErrNotFound if there is no such policy or module, store.ErrConflict if there
	// is nothing to do.
	RollbackPolicy(ctx context.Context, policy string, r Rollback) (PolicyStatus, error)
	// ShadowPolicy makes a policy a shadow in flynn.toml, or has it decide again, and puts that in force.
	ShadowPolicy(ctx context.Context, policy string, on bool, by string) (PolicyStatus, error)
}

// PolicyDetail is a policy with its history.
type PolicyDetail struct {
	PolicyStatus
	// HasSource reports whether the policy's source and cases are at hand.
	HasSource bool `json:"has_source"`
	// Versions are the latest changes, latest first.
	Versions []journal.Change `json:"versions"`
}

// PolicyTrials tries modules on what is recorded, and puts them in force. Nothing but PutPolicy has an effect on live decisions. One trial runs
// at a time: store.ErrConflict while another one does.
type PolicyTrials interface {
	// ReplayPolicy asks a module the recorded decisions of a policy. It reads at most MaxModule bytes. A BadRequest is the error of what is no
	// module for that policy.
	ReplayPolicy(ctx context.Context, name string, since time.Time, module io.Reader) (PolicyReplay, error)
	// PutPolicy puts a module in force in place of a policy's file, if it passes everything that a file has to pass: its cases, and what is asked
	// of it about recorded decisions. store.ErrConflict is why it does not; then the file is as it was.
	PutPolicy(ctx context.Context, name string, module io.Reader, by string) (PolicyStatus, error)
	// RunPolicyCases asks the module in a policy's folder the cases in it: store.ErrNotFound if they are not at hand.
	RunPolicyCases(ctx context.Context, name string) (author.Report, error)
	// ShadowReports returns what shadow policies would have changed, with so many examples of each group.
	ShadowReports(ctx context.Context, f journal.ShadowFilter, examples int) ([]shadowlog.Report, error)
}

// ReplaysSuffix and ModuleSuffix end the paths to which modules are sent, PoliciesPath begins them.
const (
	PoliciesPath   = "/api/v1/policies/"
	ReplaysSuffix  = "/replays"
	ModuleSuffix   = "/module"
	MaxModule      = meter.MaxModule // of a module, in bytes
	MaxDifferences = 100             // of a replay, that are shown
)

// PolicyReplay is what a module would change.
type PolicyReplay struct {
	compare.Report
	// Cut is why not all recorded decisions were asked.
	Cut string `json:"cut,omitempty"`
	// MoreGroups counts the groups that are not shown.
	MoreGroups int `json:"more_groups,omitempty"`
	// Differences are the first of those that the groups count.
	Differences []compare.Difference `json:"differences"`
	// Cases is what the module answers to the cases in the policy's folder; NoCases is why they could not be asked.
	Cases   *author.Report `json:"cases,omitempty"`
	NoCases string         `json:"no_cases,omitempty"`
}

// Decisions shows what was decided.
type Decisions interface {
	// Decisions returns decisions, latest first, and the cursor of what follows; "" is the end. It looks at a bounded number of records, so that a
	// list may be short and yet have a cursor.
	Decisions(ctx context.Context, f DecisionQuery) ([]Decision, string, error)
	// Decision returns one with everything that it was made of: store.ErrNotFound if there is none.
	Decision(ctx context.Context, id int64) (DecisionDetail, error)
	// ExportDecisions writes decisions, oldest first, as decisionlog.Decode reads them.
	ExportDecisions(ctx context.Context, f journal.DecisionFilter, w io.Writer) error
}

// DecisionQuery selects decisions; zero fields select all but the limit.
type DecisionQuery struct {
	Policy, Kind, Agent, Tool string
	Person                    message.SenderKey
	Outcome                   string // a word of the answer, or "failed"
	Since                     time.Time
	Cursor                    string
	Limit                     int
}

// Decision is one decision of the routing table, of a policy, or of the host about a call.
type Decision struct {
	ID      int64             `json:"id"`
	At      time.Time         `json:"at"`
	Kind    string            `json:"kind" doc:"route_table, route, tool, enforce, ..."`
	Policy  string            `json:"policy" doc:"The policy that decided, table or host"`
	Digest  string            `json:"digest,omitempty"`
	Turn    string            `json:"turn,omitempty"`
	Agent   string            `json:"agent,omitempty"`
	Person  message.SenderKey `json:"person,omitempty"`
	Channel string            `json:"channel,omitempty"`
	Tool    string            `json:"tool,omitempty"`
	Answer  string            `json:"answer"`
	Reason  string            `json:"reason,omitempty"`
	Error   string            `json:"error,omitempty"`
	Fuel    int64             `json:"fuel,omitempty"`
	Nanos   int64             `json:"nanos,omitempty"`
}

// DecisionDetail is a decision with what it was made of, as it is recorded. Long values are cut.
type DecisionDetail struct {
	Decision
	File  string            `json:"file,omitempty" doc:"SHA-256 of the module"`
	Facts []author.Fact     `json:"facts"`
	Text  string            `json:"text,omitempty" doc:"The whole text, where the facts have its beginning"`
	Args  json.RawMessage   `json:"args,omitempty" doc:"The arguments of the tool; as a string where they are cut"`
	Calls []author.CallMade `json:"calls" doc:"What the policy asked the host, and the answers"`
}
