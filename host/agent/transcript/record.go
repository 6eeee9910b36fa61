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

// The records that steps hold as JSON. A field is never renamed: old turns are read for ever.

// UserStep opens a turn: what was said.
type UserStep struct {
	Notes      []string   `json:"notes,omitempty"`    // of what was done to earlier messages since the turn before, a line each
	Recalled   []Recalled `json:"recalled,omitempty"` // of what is remembered about the speaker
	Said       []Said     `json:"said"`
	Group      bool       `json:"group,omitempty"` // more people than the speaker and Flynn may be there
	Generation uint64     `json:"generation"`
	Labels     []string   `json:"labels,omitempty"`    // of the session before the turn, and of what was said
	Used       *Used      `json:"used,omitempty"`      // by the session before the turn
	Delegated  *Delegated `json:"delegated,omitempty"` // of a turn that works for another one
	Program    string     `json:"program,omitempty"`   // the session of an agent of kind cli as its program names it, before the turn
	Folder     string     `json:"folder,omitempty"`    // of the host that a conversation with such an agent is about
}

// Said is one message of a turn.
type Said struct {
	Event string         `json:"event"`
	By    string         `json:"by,omitempty"` // the sender as people see it
	Text  string         `json:"text"`
	At    time.Time      `json:"at,omitzero"`
	Files []message.File `json:"files,omitempty"` // that came with it
}

// Recalled is a note about the speaker that a turn begins with.
type Recalled struct {
	Key  string    `json:"key"`
	Text string    `json:"text"`
	At   time.Time `json:"at,omitzero"`
}

// Delegated is the part of a turn's first step that names the turns that it works for. It has all that a later process needs to go on.
type Delegated struct {
	Chain  []Link          `json:"chain"`  // who works for whom, up to this turn's parent
	Origin message.Message `json:"origin"` // what began it all: sender, place, door
	Scope  string          `json:"place"`  // the session on whose machines it acts
	Turns  int             `json:"turns"`  // ended turns of that session
	// Tokens and ToolCalls are what a background turn was given of its parent's. Others use their parent's own.
	Tokens    int `json:"tokens,omitempty"`
	ToolCalls int `json:"tool_calls,omitempty"`
}

// Link is one agent of a delegation chain, at work.
type Link struct {
	Agent   string `json:"agent"`
	Session string `json:"session"`
	Turn    string `json:"turn"`
}

// ModelStep is one whole answer of a model.
type ModelStep = model.Response

// ToolStart says that a call is about to run. Without a ToolResult after it, nobody knows how far it came.
type ToolStart struct {
	Call     string          `json:"call"`
	Tool     string          `json:"tool"`
	Args     json.RawMessage `json:"args,omitempty"`
	Decision string          `json:"verdict"`
	Where    string          `json:"where,omitempty"`
	Reasons  []string        `json:"reasons,omitempty"`
}

// ToolResult is what came of a call, whether it ran or was refused.
type ToolResult struct {
	ToolStart
	Result      tool.Result `json:"result"`
	Interrupted bool        `json:"interrupted,omitempty"`
}

// Interrupted is the result of a call that an earlier process had begun.
func (s ToolStart) Interrupted() ToolResult {
	return ToolResult{ToolStart: s, Result: tool.Result{Text: interruptedText, IsError: true}, Interrupted: true}
}

// TaskStep is one use of a model by the host itself, in a turn.
type TaskStep = task.Use

// CondensedStep says what stands for the first answers of its turn from here on.
type CondensedStep struct {
	Entries int    `json:"entries"`        // answers, with the results of their calls
	Text    string `json:"text,omitempty"` // the summary
	Lost    int    `json:"lost,omitempty"` // of Entries, those that are in no summary, since none could be had
}

// DelegateTool is the tool by which an agent gives work to another one; its results have a Child.
const DelegateTool = "agent.delegate"

// Child is the record of a delegation in the result of its call.
type Child struct {
	Turn       string            `json:"turn"`
	Agent      string            `json:"agent"`
	State      turnlog.TurnState `json:"state"`
	Background bool              `json:"background,omitempty"`
	Tokens     int               `json:"tokens,omitempty"` // that count for the parent's limit
	ToolCalls  int               `json:"tool_calls,omitempty"`
	Used       Used              `json:"used,omitzero"`
}

// Used is what a session or a turn has used. Each turn records what came before it, so that a session of any length is known by its last
// turns.
type Used struct {
	Tokens  int64     `json:"tokens,omitempty"` // read, written and cached ones alike
	CostUSD float64   `json:"cost_usd,omitempty"`
	Began   time.Time `json:"began,omitzero"` // the first turn
}

// Add counts a use of a model.
func (u *Used) Add(m model.Usage) {
	u.Tokens += int64(max(m.Input, 0)) + int64(max(m.Output, 0)) + int64(max(m.CacheRead, 0)) + int64(max(m.CacheWrite, 0))
	u.CostUSD += m.CostUSD
}

// Join adds what another one has used.
func (u *Used) Join(other Used) {
	u.Tokens += other.Tokens
	u.CostUSD += other.CostUSD
}
