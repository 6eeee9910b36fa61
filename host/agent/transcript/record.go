package transcript

import (
	"encoding/json"
	"time"

	"github.com/flynnhost/flynn/host/agent/task"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/tool"
)

// The records that steps hold as JSON. A field is never renamed, because old turns stay readable.

// UserStep is the first step of a turn: the messages that it answers.
type UserStep struct {
	Notes      []string   `json:"notes,omitempty"`    // edits, deletions and reactions since the last turn, a line each
	Recalled   []Recalled `json:"recalled,omitempty"` // notes about the speaker
	Said       []Said     `json:"said"`
	Group      bool       `json:"group,omitempty"` // others may read the conversation
	Generation uint64     `json:"generation"`
	Labels     []string   `json:"labels,omitempty"`    // of the session before the turn and of its messages
	Used       *Used      `json:"used,omitempty"`      // by the session before the turn
	Delegated  *Delegated `json:"delegated,omitempty"` // set for a delegated turn
	Program    string     `json:"program,omitempty"`   // the agent CLI's id of the session, before the turn
	Folder     string     `json:"folder,omitempty"`    // host folder of a conversation with an agent CLI
}

// Said is one message of a turn.
type Said struct {
	Event string         `json:"event"`
	By    string         `json:"by,omitempty"` // the sender's display name
	Text  string         `json:"text"`
	At    time.Time      `json:"at,omitzero"`
	Files []message.File `json:"files,omitempty"` // attached files
}

// Recalled is a note about the speaker that is shown at the begin of a turn.
type Recalled struct {
	Key  string    `json:"key"`
	Text string    `json:"text"`
	At   time.Time `json:"at,omitzero"`
}

// Delegated is the part of a turn's first step that names the turns above it. It suffices for a later process to resume the turn.
type Delegated struct {
	Chain  []Link          `json:"chain"`  // the delegation chain down to this turn's parent
	Origin message.Message `json:"origin"` // the first message of the chain: sender, conversation, frontend
	Scope  string          `json:"place"`  // the session whose sandboxes the turn uses
	Turns  int             `json:"turns"`  // ended turns of that session
	// Tokens and ToolCalls are the share of a background turn. Other delegated turns use up their parent's limits.
	Tokens    int `json:"tokens,omitempty"`
	ToolCalls int `json:"tool_calls,omitempty"`
}

// Link is one agent of a delegation chain.
type Link struct {
	Agent   string             `json:"agent"`
	Session message.SessionKey `json:"session"`
	Turn    string             `json:"turn"`
}

// ModelStep is one complete answer of a model.
type ModelStep = model.Response

// ToolStart records that a call is about to run. Without a ToolResult after it, the effect of the call is unknown.
type ToolStart struct {
	Call     string          `json:"call"`
	Tool     string          `json:"tool"`
	Args     json.RawMessage `json:"args,omitempty"`
	Decision string          `json:"verdict"`
	Where    string          `json:"where,omitempty"`
	Reasons  []string        `json:"reasons,omitempty"`
}

// ToolResult is the result of a call, whether it ran or was refused.
type ToolResult struct {
	ToolStart
	Result      tool.Result `json:"result"`
	Interrupted bool        `json:"interrupted,omitempty"`
}

// Interrupted returns the result of a call that an earlier process began.
func (s ToolStart) Interrupted() ToolResult {
	return ToolResult{ToolStart: s, Result: tool.Result{Text: interruptedText, IsError: true}, Interrupted: true}
}

// TaskStep is one model call that the host itself made during a turn.
type TaskStep = task.Use

// CondensedStep replaces the first answers of its turn by a summary.
type CondensedStep struct {
	Entries int    `json:"entries"`        // answers that it replaces
	Text    string `json:"text,omitempty"` // the summary
	Lost    int    `json:"lost,omitempty"` // answers among Entries without a summary, because it failed
}

// DelegateTool is the tool that delegates to another agent. Its results hold a Child.
const DelegateTool = "agent.delegate"

// Child is the record of a delegation in the result of its call.
type Child struct {
	Turn       string            `json:"turn"`
	Agent      string            `json:"agent"`
	State      turnlog.TurnState `json:"state"`
	Background bool              `json:"background,omitempty"`
	Tokens     int               `json:"tokens,omitempty"` // counted towards the parent's limit
	ToolCalls  int               `json:"tool_calls,omitempty"`
	Used       Used              `json:"used,omitzero"`
}

// Used is the usage of a session or a turn. Each turn records the usage before it, so that the last turns suffice to know a session's
// total.
type Used struct {
	Tokens  int64     `json:"tokens,omitempty"` // input, output and cached
	CostUSD float64   `json:"cost_usd,omitempty"`
	Began   time.Time `json:"began,omitzero"` // of the first turn
}

// Add adds a model call.
func (u *Used) Add(m model.Usage) {
	u.Tokens += int64(max(m.Input, 0)) + int64(max(m.Output, 0)) + int64(max(m.CacheRead, 0)) + int64(max(m.CacheWrite, 0))
	u.CostUSD += m.CostUSD
}

// Join adds other usage.
func (u *Used) Join(other Used) {
	u.Tokens += other.Tokens
	u.CostUSD += other.CostUSD
}
