// Package tool is for writing a provider of tools: a program whose functions an agent may call.
//
// Implement Provider and pass it to Main. The package handles the rest: the handshake with the host, the limits of the protocol, media,
// logging, shutdown, and the end of the process when its host is gone.
//
//	func main() { tool.Main(&dice{}) }
//
// A provider that keeps a connection, or whose list of tools changes, implements Runner, too.
//
// The methods are called in this order: Describe at any time; Configure once; then Run, once, and concurrently with it Tools and Call, from
// many goroutines. The Effect that a tool declares is shown to people; the host's own configuration decides what the tool may do.
//
// Write logs with Config.Log. Standard output belongs to the handshake. Test with sdk/plugintest.
package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/flynnhost/flynn/sdk/hostapi"
	"github.com/flynnhost/flynn/sdk/plugin"
)

// Provider offers tools.
type Provider interface {
	// Describe describes the plugin. It must agree with plugin.toml, have no side effects, and return at once.
	Describe() Description
	// Configure receives the settings and checks them. FieldErrors mean that the settings are wrong; any other error means that the check
	// failed, and the host tries again.
	Configure(ctx context.Context, c Config) error
	// Tools lists the current tools, at most 512.
	Tools(ctx context.Context) ([]Tool, error)
	// Call runs one tool. Its arguments match the schema that Tools returned. A failure of the tool is a Result with IsError; an error
	// means that the provider could not call it. When ctx ends, nobody waits for the answer.
	Call(ctx context.Context, c *Call) (Result, error)
}

// Runner is a Provider with background work while it is in use.
type Runner interface {
	// Run works until ctx ends. An error, or an earlier return, ends the process; the host starts another after a pause.
	Run(ctx context.Context, b Board) error
}

// Board is how a Runner reports its state. Its methods may be called from many goroutines.
type Board interface {
	// Status shows people the state of the connection, which is StateConnecting before the first call.
	Status(s State, text string)
	// Changed announces that the result of Tools has changed.
	Changed()
}

// Description describes the plugin. It must agree with plugin.toml.
type Description struct {
	Name    string // [a-z0-9-], 2 to 40 characters
	Version string // exact semver, no "v"
	// ConfigSchema is the JSON schema of the settings: the exact content of the file that plugin.toml names, or empty.
	ConfigSchema []byte
}

// Tool is one tool.
type Tool struct {
	Name        string          // [a-zA-Z0-9_.-], at most 64 characters, unique in the provider
	Description string          // what it does and when to use it, for the model; at most 4 KiB
	Schema      json.RawMessage // JSON Schema of the arguments, an object; at most 64 KiB; empty accepts any object
	Output      json.RawMessage // JSON Schema of Result.Structured; may be empty
	Effect      Effect
	Idempotent  bool          // calling it twice with the same arguments is the same as once
	Timeout     time.Duration // how long a call may usually take; 0: the host's default
}

// Effect classifies what a tool can do.
type Effect int

// The classes.
const (
	EffectUnknown Effect = iota // treated as the worst
	Read                        // reads and changes nothing
	Write                       // makes changes that can be undone
	Destructive                 // makes changes that cannot be undone
	Network                     // communicates with other machines
	Execute                     // runs code that it is given
)

// Result is the result of a call.
type Result struct {
	Text       string // for the model; at most 512 KiB, more is cut
	IsError    bool   // the tool failed; Text says how
	Structured json.RawMessage
	// Media are stored in the host's media store, at most 16, which requires the permission "media"; those that cannot be stored are
	// mentioned in Text.
	Media []Media
}

// Media is an image or a file.
type Media = hostapi.Media

// Text returns a result that is a text.
func Text(text string) Result { return Result{Text: text} }

// Failed returns the result of a tool that failed, with a message for the model.
func Failed(text string) Result { return Result{Text: text, IsError: true} }

// The parts that plugins of every kind share, see sdk/plugin.
type (
	Config      = plugin.Config
	FieldError  = plugin.FieldError
	FieldErrors = plugin.FieldErrors
	State       = plugin.State
)

// The states.
const (
	StateConnecting   = plugin.StateConnecting
	StateReady        = plugin.StateReady        // connected and working
	StateDegraded     = plugin.StateDegraded     // working with losses that the text explains
	StateAuthRequired = plugin.StateAuthRequired // a person has to renew a credential
	StateRateLimited  = plugin.StateRateLimited  // the platform asked to slow down
)

// Main runs p as a plugin process and does not return. It ends when the host requests it, when the host is gone (standard input ends), or
// when Run fails.
func Main(p Provider) { plugin.Main(Part(p)) }
