// Package explain shows what happened to a message: one trace of a turn, from its messages to the delivery of its answer.
//
// Start with New, which makes a Trace of the stored records, and Trace.Text. Decisions are read from those records and never made again,
// so that a trace stays true after the configuration has changed. Everything in it is bounded.
package explain

import (
	"encoding/json"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Trace is one turn, or one message that no turn took.
type Trace struct {
	ID           string             `json:"id"` // of the turn; "message/N" where there is none
	Agent        string             `json:"agent,omitempty"`
	Session      message.SessionKey `json:"session,omitempty"`
	Channel      string             `json:"channel"`
	Conversation string             `json:"conversation"`
	Sender       message.SenderKey  `json:"sender"`
	State        string             `json:"state"` // running, done, failed or stopped; of a message alone new, dropped, stale, ...
	Error        string             `json:"error,omitempty"`
	Started      time.Time          `json:"started,omitzero"`
	Ended        time.Time          `json:"ended,omitzero"`
	Generation   uint64             `json:"generation,omitempty"` // of the configuration under which it began
	// Parent is the turn that delegated it, and ParentCall the tool call of that turn.
	Parent     string `json:"parent,omitempty"`
	ParentCall string `json:"parent_call,omitempty"`
	Task       string `json:"task,omitempty"` // of a delegated turn
	Background bool   `json:"background,omitempty"`

	Messages   []Message  `json:"messages"`
	Route      []Decision `json:"route"`
	Steps      []Step     `json:"steps"`
	Deliveries []Delivery `json:"deliveries"`
	// Decisions, Approvals, Audit and Attempts belong to no recorded call or step.
	Decisions []Decision `json:"decisions,omitempty"`
	Approvals []Approval `json:"approvals,omitempty"`
	Audit     []Audit    `json:"audit,omitempty"`
	Attempts  []Attempt  `json:"attempts,omitempty"`

	Tokens  int64   `json:"tokens"` // of all attempts
	CostUSD float64 `json:"cost_usd"`
	Cut     bool    `json:"cut,omitempty"` // the trace was too long and has been cut
}

// Message is a message that the turn answers.
type Message struct {
	Row    int64             `json:"row"`
	Event  string            `json:"event"`
	Sender message.SenderKey `json:"sender"`
	Text   string            `json:"text,omitempty"`
	State  string            `json:"state"`
	Note   string            `json:"note,omitempty"` // why it was not answered
	At     time.Time         `json:"at,omitzero"`
}

// Decision is one answer of the routing table, of a policy, or of the host about a call.
type Decision struct {
	ID     int64     `json:"id"` // in the decision log; see flynn policy explain
	At     time.Time `json:"at"`
	Kind   string    `json:"kind"` // route_table, route, tool or enforce
	By     string    `json:"by"`   // name of the policy, "table" or "host"
	Answer string    `json:"answer"`
	Reason string    `json:"reason,omitempty"`
	Error  string    `json:"error,omitempty"`
	Digest string    `json:"digest,omitempty"`
	Fuel   int64     `json:"fuel,omitempty"`
	Nanos  int64     `json:"nanos,omitempty"`
}

// Step is one use of a model, with the calls of the answer.
type Step struct {
	Seq      int        `json:"seq"`
	At       time.Time  `json:"at"`             // of the answer
	Task     string     `json:"task,omitempty"` // of the host; "" for the agent's answer
	Tier     string     `json:"tier,omitempty"`
	Provider string     `json:"provider,omitempty"`
	Model    string     `json:"model,omitempty"`
	Stop     string     `json:"stop,omitempty"`
	Error    string     `json:"error,omitempty"`
	Tokens   Tokens     `json:"tokens"`
	CostUSD  float64    `json:"cost_usd"`
	Attempts []Attempt  `json:"attempts,omitempty"` // failed ones included
	Calls    []ToolCall `json:"calls,omitempty"`
}

// Tokens do not overlap.
type Tokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Estimated  bool  `json:"estimated,omitempty"`
}

// Attempt is one attempt at a model call. One that failed may have cost nothing.
type Attempt struct {
	At       time.Time `json:"at"` // its start
	Task     string    `json:"task,omitempty"`
	Tier     string    `json:"tier"`
	Provider string    `json:"provider"`
	Model    string    `json:"model"`
	Number   int       `json:"attempt"`
	Failure  string    `json:"failure,omitempty"`
	Tokens   Tokens    `json:"tokens"`
	CostUSD  float64   `json:"cost_usd"`
}

// ToolCall is one call with the decisions about it.
type ToolCall struct {
	ID   string          `json:"id"`
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"` // canonical; long ones are cut and become a JSON string
	// Outcome is run, run_in_sandbox, ask or deny; "" for a call about which nothing was decided.
	Outcome     string     `json:"verdict,omitempty"`
	Where       string     `json:"where,omitempty"`   // "host" or the sandbox's name
	Reasons     []string   `json:"reasons,omitempty"` // each restriction, in the order in which they were added
	Policies    []Decision `json:"policies,omitempty"`
	Host        *Decision  `json:"host,omitempty"` // the outcome as the decision log has it
	Approvals   []Approval `json:"approvals,omitempty"`
	Audit       []Audit    `json:"audit,omitempty"`  // leases and elevations that it used
	Within      []Decision `json:"within,omitempty"` // about the calls of its program
	Child       string     `json:"child,omitempty"`  // the turn that it delegated
	Started     time.Time  `json:"started,omitzero"`
	Ended       time.Time  `json:"ended,omitzero"`
	Result      string     `json:"result,omitempty"`
	IsError     bool       `json:"is_error,omitempty"`
	Interrupted bool       `json:"interrupted,omitempty"`
}

// Approval is a request to a person and its answer.
type Approval struct {
	ID      string    `json:"id"`
	Tool    string    `json:"tool"`
	State   string    `json:"state"`
	Scope   string    `json:"scope,omitempty"` // how far a grant reached beyond the call
	Reasons []string  `json:"reasons,omitempty"`
	Decider string    `json:"decider,omitempty"`
	Created time.Time `json:"created"`
	Decided time.Time `json:"decided,omitzero"`
	Expires time.Time `json:"expires"`
}

// Audit is one use of a permission that a person had given before.
type Audit struct {
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"`
	Subject string    `json:"subject"`
	Actor   string    `json:"actor,omitempty"`
	Tool    string    `json:"tool,omitempty"`
	Detail  string    `json:"detail,omitempty"`
}

// Delivery is the delivery of one reply.
type Delivery struct {
	Key         string    `json:"key"`
	Channel     string    `json:"channel"`
	State       string    `json:"state"`
	Text        string    `json:"text,omitempty"`
	Attempts    int       `json:"attempts"`
	Parts       int       `json:"parts,omitempty"` // of a long reply
	Delivered   int       `json:"delivered,omitempty"`
	Note        string    `json:"note,omitempty"`
	NextTry     time.Time `json:"next_try,omitzero"`
	PlatformIDs []string  `json:"platform_ids,omitempty"`
}
