package message

import "encoding/json"

// EventKind names what happened in a turn.
type EventKind string

// The events of a turn, in the order in which they can appear. TextDelta, TextReset and ToolProgress are
// transient; everything else is also in the store by the time it is published. A turn that ends has either ReplyReady or
// TurnFailed, and then TurnDone. Said is of no turn: it comes when a message is accepted, before the TurnStarted that names it.
const (
	Said         EventKind = "said"
	TurnStarted  EventKind = "turn_started"
	TextDelta    EventKind = "text_delta"
	TextReset    EventKind = "text_reset"    // what streamed since the last call is void; it begins anew
	ToolCall     EventKind = "tool_call"     // the model asks for a tool
	ToolDecision EventKind = "tool_verdict"  // what enforcement decided, with reasons
	ToolApproval EventKind = "tool_approval" // a person is asked
	ToolProgress EventKind = "tool_progress" // output as it comes
	ToolResult   EventKind = "tool_result"
	ReplyReady   EventKind = "reply"       // the final text, committed
	TurnFailed   EventKind = "turn_failed" // why there is no answer, for people; committed as the reply, too
	TurnDone     EventKind = "turn_done"
)

// Event is one thing that happened in a turn, published to those who watch its conversation.
// It is a view for people; the store is the truth.
type Event struct {
	Kind         EventKind `json:"kind"`
	Channel      string    `json:"channel"`
	Conversation string    `json:"conversation"`
	Turn         string    `json:"turn,omitempty"`
	Agent        string    `json:"agent,omitempty"`
	// Text is the delta, the final text, the output, or the error, by kind.
	Text string `json:"text,omitempty"`
	// Waiting says of ToolProgress that it is no output: it tells what the call waits for, such as its sandbox's image.
	Waiting bool   `json:"waiting,omitempty"`
	Call    string `json:"call,omitempty"` // tool call id
	Tool    string `json:"tool,omitempty"`
	// Args are the tool call's arguments as canonical JSON.
	Args json.RawMessage `json:"args,omitempty"`
	// Verdict: "run", "run_in_sandbox", "ask", "deny".
	Decision string   `json:"verdict,omitempty"`
	Reasons  []string `json:"reasons,omitempty"`
	Where    string   `json:"where,omitempty"` // "host" or the sandbox's name
	Approval string   `json:"approval,omitempty"`
	IsError  bool     `json:"is_error,omitempty"`
	Key      string   `json:"key,omitempty"` // idempotency key of a reply, event id of what was said
	// Answers are the event ids of the messages that a turn answers, with TurnStarted.
	Answers []string `json:"answers,omitempty"`
}
