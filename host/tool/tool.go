// Package tool holds the tools that agents call, the registry that offers them,
// and Enforcer.Admit, the one function that decides whether a call may run.
//
// Start with Tool, Registry and Enforcer; Enforcer.Admit and Runner.Run are the two steps
// of a call. A tool acts on the Machine that it is given and does not know whether that is the
// host or a sandbox. The package does not talk to models.
package tool

import (
	"context"
	"encoding/json"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Effect classes what a tool can do, as the host knows it; what a provider says of itself is not believed.
type Effect string

// The classes, from harmless to harmful.
const (
	Read    Effect = "read"
	Write   Effect = "write"
	Network Effect = "network"
	Execute Effect = "execute"
	// Destructive changes something for good. Tools of providers alone are of it.
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
	// Own is true for tools whose every call has a container of its own, made for it and removed after it: never the host,
	// nor the session's sandbox.
	Own bool
	// Provider is the plugin that brings the tool, empty for one of Flynn's own. What a provider says is foreign.
	Provider string
	// Approve says when a person has to agree to a call of a provider's tool, besides what policies demand.
	Approve Approve
	// Profiles are those that offer a provider's tool.
	Profiles []string
	// Digest names what a provider says of its tool, all of it: an approval is good for no other.
	Digest string
}

// Approve says when the host asks a person, whatever the policies say.
type Approve string

// When a person is asked. The zero value is ApproveByEffect.
const (
	ApproveByEffect Approve = "effect" // before execute and destructive
	ApproveAlways   Approve = "always"
	ApproveNever    Approve = "never"
)

// Revocable is a Tool that may be gone, or be another one, before its registry is. Revoked says why it cannot be called as it was
// registered, or "". It must not block.
type Revocable interface{ Revoked() string }

// Tool does one thing. Runner alone calls Run, after Admit; its arguments fit the schema.
// An error from Run is a failure of the host; a failure of the thing itself is a Result with IsError.
type Tool interface {
	Spec() Spec
	Run(ctx context.Context, call Call) (Result, error)
}

// Call is one tool call that may run.
type Call struct {
	ID      string
	Name    string
	Args    json.RawMessage // canonical JSON
	Session string          // session key, "channel:conversation:agent"
	// Workspace is what the workspace is called by, which a session shares with the turns that it delegates; empty is Session.
	Workspace string
	Agent     string
	Sender    string   // "instance:platform-id"
	Persons   []string // the sender's ids, where an owner has linked several; empty is Sender alone
	Owner     bool     // the sender is one
	Turn      string
	Private   bool // nobody but the sender reads the conversation
	// Labels are the provenance labels of the session, for tools that keep something of it.
	Labels []string
	// Machine is where tools with Spec.Machine act.
	Machine machine.Machine
	// Place are the labels of what a program prints on Machine.
	Place []string
	// MaxText bounds the result's text, in bytes, where the host has more use of it than the model; 0 is the runner's own bound.
	MaxText int
	// Think puts a question to the model of the task complex_reasoning; it may be nil.
	Think func(ctx context.Context, question string) (string, error)
	// Progress receives output as it comes; never nil.
	Progress func(p []byte)
	// Helper answers the calls of a program that the tool runs; nil where programs get no answers.
	Helper Helper
	// Say receives pieces of the answer itself, from tools that make it (see package cli); never nil.
	Say func(text string)
}

// Helper makes a call for a running program, with all that a call of the agent's own goes through. It is not safe for concurrent
// use. pause stops the program's clock until resume is called.
type Helper func(ctx context.Context, name string, args json.RawMessage, pause func() (resume func())) Result

// ReadResult is the tool that reads results which the model was shown in part.
const ReadResult = "result.read"

// Result is what the model and the watching people get.
type Result struct {
	Text    string          `json:"text"` // valid UTF-8, bounded
	IsError bool            `json:"is_error,omitempty"`
	Verdict json.RawMessage `json:"verdict,omitempty"` // typed record for people, such as a machine.Result
	// Labels say what the result has touched ("web:example.com", "file:notes.md"); see JoinLabels.
	Labels []string `json:"labels,omitempty"`
	// Attachments go with the answer that ends the turn.
	Attachments []message.Attachment `json:"attachments,omitempty"`
	// Media are files of a provider's result in the host's media store; Text names them.
	Media []Media `json:"media,omitempty"`
	// Violations are what a program tried and was kept from, for the decision log.
	Violations []string `json:"violations,omitempty"`
}

// Media is a file of a result.
type Media struct {
	SHA256 string `json:"sha256"`
	Type   string `json:"type,omitempty"` // media type, as the tool says
	Name   string `json:"name,omitempty"`
}
