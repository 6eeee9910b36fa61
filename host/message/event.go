package message

import "encoding/json"

// EventKind is the kind of an Event.
type EventKind string

// The events of a turn, in the order in which they can appear. TextDelta, TextReset and ToolProgress are transient; all others are in
// the store when they are published. A turn ends with either ReplyReady or TurnFailed, followed by TurnDone. Said belongs to no turn:
// it is published when a message is accepted, before the TurnStarted that names it.
const (
	Said         EventKind = "said"
	TurnStarted  EventKind = "turn_started"
	TextDelta    EventKind = "text_delta"
	TextReset    EventKind = "text_reset"    // discard the text since the last call; it begins anew
	ToolCall     EventKind = "tool_call"     // the model asks for a tool
	ToolDecision EventKind = "tool_verdict"  // the decision about a call, with reasons
	ToolApproval EventKind = "tool_approval" // a person is asked for approval
	ToolProgress EventKind = "tool_progress" // partial output
	ToolResult   EventKind = "tool_result"
	ReplyReady   EventKind = "reply"       // the final text, committed
	TurnFailed   EventKind = "turn_failed" // why there is no answer, for people; also committed as the reply
	TurnDone     EventKind = "turn_done"
)

// Event is something that happened in a turn, published to the watchers of its conversation. It is a view for people; the store has the
// data.
type Event struct {
	Kind         EventKind `json:"kind"`
	Channel      string    `json:"channel"`
	Conversation string    `json:"conversation"`
	Turn         string    `json:"turn,omitempty"`
	Agent        string    `json:"agent,omitempty"`
	// Text is the delta, the final text, the output, or the error, by kind.
	Text string `json:"text,omitempty"`
	// Waiting marks a ToolProgress that is not output but says what the call waits for, such as its sandbox's image.
	Waiting bool   `json:"waiting,omitempty"`
	Call    string `json:"call,omitempty"` // tool call id
	Tool    string `json:"tool,omitempty"`
	// Args are the tool call's arguments as canonical JSON.
	Args json.RawMessage `json:"args,omitempty"`
	// Decision is "run", "run_in_sandbox", "ask" or "deny".
	Decision string   `json:"verdict,omitempty"`
	Reasons  []string `json:"reasons,omitempty"`
	Where    string   `json:"where,omitempty"` // "host" or the sandbox's name
	Approval string   `json:"approval,omitempty"`
	IsError  bool     `json:"is_error,omitempty"`
	Key      string   `json:"key,omitempty"` // idempotency key of a reply, or event id of a message
	// Answers are the event ids of the messages that a turn answers. It is set in TurnStarted.
	Answers []string `json:"answers,omitempty"`
	// Files are the names of the files of a message.
	Files []string `json:"files,omitempty"`
}
