// Package tool is for writing a provider of tools: a program whose functions an agent may call.
//
// Implement Provider, hand it to Main, and the package does the rest: the handshake with the host, the wire's bounds, media, logging, an
// orderly end, and the end of the process when its host is gone.
//
//	func main() { tool.Main(&dice{}) }
//
// A provider that keeps a connection, or whose list of tools changes, implements Runner, too.
//
// The methods are called in this order: Describe at any time; Configure once; then Run, once, and beside it Tools and Call, from
// many goroutines. What a tool says of its effect is shown to people; what it may do is decided by the host's own configuration.
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
	// Describe says what the plugin is. It must agree with plugin.toml, touch nothing, and return at once.
	Describe() Description
	// Configure takes the settings and checks them. FieldErrors say that the settings are wrong; any other error that the check could not
	// be made, and the host tries again.
	Configure(ctx context.Context, c Config) error
	// Tools lists the tools as they are now, at most 512.
	Tools(ctx context.Context) ([]Tool, error)
	// Call runs one tool. Its arguments fit the schema that Tools gave. A failure of the tool is a Result with IsError; an error means
	// that the provider could not call it. When ctx ends, nobody waits for the answer.
	Call(ctx context.Context, c *Call) (Result, error)
}

// Runner is a Provider with something of its own to do while it is in use.
type Runner interface {
	// Run works until ctx ends. An error, or a return before that, ends the process; the host starts another after a pause.
	Run(ctx context.Context, b Board) error
}

// Board is where a Runner puts up how it is. Its methods may be called from many goroutines.
type Board interface {
	// Status shows people the state of the connection. It is StateConnecting until the first call.
	Status(s State, text string)
	// Changed announces that Tools would answer something else now.
	Changed()
}

// Description describes the plugin. It must agree with plugin.toml.
type Description struct {
	Name    string // [a-z0-9-], 2 to 40 characters
	Version string // exact semver, no "v"
	// ConfigSchema is the JSON schema of the settings, byte for byte the file that plugin.toml names; empty without one.
	ConfigSchema []byte
}

// Tool is one tool.
type Tool struct {
	Name        string          // [a-zA-Z0-9_.-], at most 64 characters, unique in the provider
	Description string          // what it does and when to use it, for the model; at most 4 KiB
	Schema      json.RawMessage // JSON Schema of the arguments, an object; at most 64 KiB; empty takes any object
	Output      json.RawMessage // JSON Schema of Result.Structured; may be empty
	Effect      Effect
	Idempotent  bool          // calling it twice with the same arguments is the same as once
	Timeout     time.Duration // how long a call may usually take; 0: the host's default
}

// Effect classes what a tool can do.
type Effect int

// The classes.
const (
	EffectUnknown Effect = iota // taken as the worst
	Read                        // looks and changes nothing
	Write                       // changes something that can be changed back
	Destructive                 // changes something for good
	Network                     // talks to other machines
	Execute                     // runs what it is given
)

// Result is what came of a call.
type Result struct {
	Text       string // for the model; at most 512 KiB, more is cut
	IsError    bool   // the tool failed; Text says how
	Structured json.RawMessage
	// Media are put into the host's store, at most 16, which needs the permission "media"; what cannot be is named in Text.
	Media []Media
}

// Media is an image or a file.
type Media = hostapi.Media

// Text is a result that is a text.
func Text(text string) Result { return Result{Text: text} }

// Failed is the result of a tool that failed, with the words for the model.
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

// Main runs p as a plugin process and does not return. It ends when the host asks for it, when the host is
// gone (standard input ends), or when Run fails.
func Main(p Provider) { plugin.Main(Part(p)) }
