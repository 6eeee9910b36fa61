// Package tool holds the tools that agents call, the registry that offers them,
// and Enforcer.Admit, the one function that decides whether a call may run.
//
// Start with Tool, Registry and Enforcer; Enforcer.Admit and Runner.Run are the two steps
// of a call. A tool acts on the Machine of the call, the host or a sandbox, without a
// difference. The package does not talk to models.
package tool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Effect classes what a tool can do. For a provider's tool the configuration sets it, not the provider.
type Effect string

// The classes, from harmless to harmful.
const (
	Read    Effect = "read"
	Write   Effect = "write"
	Network Effect = "network"
	Execute Effect = "execute"
	// Destructive changes something for good. Only tools of providers have it.
	Destructive Effect = "destructive"
)

// Spec describes a tool.
type Spec struct {
	Name        string // "shell.exec"
	Description string // for the model
	Schema      json.RawMessage
	Effect      Effect
	// Machine is true for tools that act on a Machine: they follow the session into its sandbox.
	Machine bool
	// Own is true for tools whose every call runs in a container of its own: never on the host, nor in the session's
	// sandbox.
	Own bool
	// Provider is the plugin of the tool, empty for a built-in one. The texts of a provider are foreign.
	Provider string
	// Approve says when a call of a provider's tool needs an approval, besides the demands of policies.
	Approve Approve
	// Profiles are the profiles that offer a provider's tool.
	Profiles []string
	// Digest identifies the provider's description of its tool: an approval holds for no other.
	Digest string
}

// Approve says when the host asks a person, besides the demands of policies.
type Approve string

// When a person is asked. The zero value is ApproveByEffect.
const (
	ApproveByEffect Approve = "effect" // before execute and destructive
	ApproveAlways   Approve = "always"
	ApproveNever    Approve = "never"
)

// Revocable is a Tool that may change or disappear after its registration. Revoked returns why it cannot be called any more, or "". It
// must not block.
type Revocable interface{ Revoked() string }

// Tool does one thing. Only Runner calls Run, after Admit, with arguments that fit the schema.
// An error from Run is a failure of the host; a failure of the tool's task is a Result with IsError.
type Tool interface {
	Spec() Spec
	Run(ctx context.Context, call Call) (Result, error)
}

// Call is one tool call that may run.
type Call struct {
	ID      string
	Name    string
	Args    json.RawMessage // canonical JSON
	Session message.SessionKey
	// Workspace names the workspace, which a session shares with its delegated turns; empty means Session.
	Workspace message.WorkspaceKey
	Agent     string
	Sender    message.SenderKey
	Persons   []message.SenderKey // the sender's ids, if an owner has linked several; empty is Sender alone
	Owner     bool                // the sender is an owner
	Turn      string
	Private   bool // only the sender reads the conversation
	// Labels are the provenance labels of the session, for tools that store a part of it.
	Labels []string
	// Machine is where tools with Spec.Machine act.
	Machine machine.Machine
	// Place are the labels of a program's output on Machine.
	Place []string
	// MaxText bounds the result's text, in bytes, for calls of the host itself; 0 is the runner's own bound.
	MaxText int
	// Think asks the model of the task complex_reasoning a question; it may be nil.
	Think func(ctx context.Context, question string) (string, error)
	// Pay accounts for a paid service that the tool uses, see search.Pay; nil if none may be used.
	Pay func(ctx context.Context, a model.Attempt, call func() (model.Usage, error)) error
	// Progress receives output as it comes; never nil.
	Progress func(p []byte)
	// Helper makes tool calls for a program that the tool runs; nil if programs may make none.
	Helper Helper
	// Say receives pieces of the answer, from tools that make it (see package cli); never nil.
	Say func(text string)
}

// Helper makes a call for a running program, with all checks of a call of the agent. It is not safe for concurrent use. pause
// stops the program's timeout until resume is called.
type Helper func(ctx context.Context, name string, args json.RawMessage, pause func() (resume func())) Result

// ReadResult is the tool that reads results of which the model got a part.
const ReadResult = "result.read"

// Result is the result of a call for the model and for people who watch.
type Result struct {
	Text    string          `json:"text"` // valid UTF-8, bounded
	IsError bool            `json:"is_error,omitempty"`
	Record  json.RawMessage `json:"verdict,omitempty"` // typed record for people, such as a machine.Result
	// Labels name the sources of the result ("web:example.com", "file:notes.md"); see JoinLabels.
	Labels []string `json:"labels,omitempty"`
	// Attachments go with the answer that ends the turn.
	Attachments []message.Attachment `json:"attachments,omitempty"`
	// Media are files of a provider's result in the host's media store; Text names them.
	Media []Media `json:"media,omitempty"`
	// Violations are the forbidden actions that a program attempted, for the decision log.
	Violations []string `json:"violations,omitempty"`
}

// Failure is the Result of a task that failed.
func Failure(format string, args ...any) Result {
	return Result{Text: fmt.Sprintf(format, args...), IsError: true}
}

// Media is a file of a result.
type Media struct {
	SHA256 string `json:"sha256"`
	Type   string `json:"type,omitempty"` // media type, as the tool says
	Name   string `json:"name,omitempty"`
}
