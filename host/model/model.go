// Package model calls language models: tiers, providers, failover.
//
// Start with NewSet and Set.Stream. A Provider implements one wire format and retries nothing by
// itself; the formats are in the folders below, and package providers lists them. The package
// knows the schemas of tools alone and never runs one.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/jsonform"
)

// Provider streams one model call.
type Provider interface {
	// Stream sends the request and calls emit for each piece of the answer as it comes. It returns the whole
	// answer. Errors are *Error where the cause is known. A stream that breaks off is an error,
	// never a short answer. It does not use the messages after it has returned.
	Stream(ctx context.Context, req Request, emit func(Delta)) (Response, error)
}

// Request is one call of a model.
type Request struct {
	Model     string
	System    string
	Messages  []Message
	Tools     []Tool
	MaxTokens int
	// Session names the conversation to providers that cache by it; never a secret.
	Session string
	// Source is the person behind the call; failures with one person's messages do not open the breaker for others.
	Source string
	// Reasoning is how much the model thinks before it answers; Set fills it in.
	Reasoning config.Reasoning
	// OpenImage reads an image of the messages by its digest; nil sends none.
	OpenImage func(ctx context.Context, digest string) ([]byte, error)
	// Gate admits every attempt; nil admits all.
	Gate Gate
	// Rough is the result of the function Rough for the request, if the caller has it already; 0 means not known.
	Rough int
}

// Role of a message.
type Role string

// The roles. Tool results travel in a User message.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one entry of the transcript as a model sees it.
type Message struct {
	Role    Role         `json:"role"`
	Text    string       `json:"text,omitempty"`
	Calls   []ToolCall   `json:"calls,omitempty"`   // Assistant
	Results []ToolResult `json:"results,omitempty"` // User
	Images  []Image      `json:"images,omitempty"`  // User
	// Thinking are the thoughts before an answer of the Assistant. Their provider gets them back unchanged.
	Thinking []Thinking `json:"thinking,omitempty"`
}

// Image is a picture for a model. A transcript has its digest; the bytes are read for each call.
type Image struct {
	Digest string `json:"digest"` // SHA-256, lower-case hex
	Type   string `json:"type,omitempty"`
	Data   []byte `json:"-"`
}

// Thinking is one thought of a model, with the provider's signature. If Data is set, the thought is encrypted, and Data is all there
// is. It means nothing to other models.
type Thinking struct {
	Model     string `json:"model"`
	Text      string `json:"text,omitempty"`
	Signature string `json:"signature,omitempty"`
	Data      string `json:"data,omitempty"`
}

// Tool describes a tool to a model.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, an object
}

// ToolCall is a model's request to call a tool. Args is the text that the model wrote and may be malformed.
type ToolCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// MarshalJSON writes arguments that are not JSON as a string, so that a transcript with malformed
// arguments can still be stored. They do not become an object.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	type plain ToolCall
	if !json.Valid(c.Args) {
		text, err := jsonform.Marshal(string(c.Args))
		if err != nil {
			return nil, err
		}
		c.Args = text
	}
	return jsonform.Marshal(plain(c))
}

// ToolResult answers a ToolCall.
type ToolResult struct {
	ID      string  `json:"id"`
	Text    string  `json:"text"`
	IsError bool    `json:"is_error,omitempty"`
	Images  []Image `json:"images,omitempty"`
}

// Delta is a piece of an answer.
type Delta struct {
	Text string
	// Reset takes back all text emitted so far: the call starts over, perhaps with another model.
	// It comes from Set only, alone, without text.
	Reset bool
}

// Stop says why the model stopped.
type Stop string

// The reasons to stop.
const (
	StopEnd       Stop = "end"
	StopToolCalls Stop = "tool_calls"
	StopLength    Stop = "length"
	StopRefusal   Stop = "refusal"
)

// Response is a whole answer.
type Response struct {
	Message  Message `json:"message"`
	Stop     Stop    `json:"stop"`
	Usage    Usage   `json:"usage"`
	Tier     string  `json:"tier"`
	Provider string  `json:"provider"`
	Model    string  `json:"model"`
}

// Usage counts tokens of one call. Input, CacheRead and CacheWrite do not overlap: their sum is the
// size of the request, for every provider.
type Usage struct {
	Input      int     `json:"input"`
	Output     int     `json:"output"`
	CacheRead  int     `json:"cache_read,omitempty"`
	CacheWrite int     `json:"cache_write,omitempty"`
	CostUSD    float64 `json:"cost_usd,omitempty"`
	// Estimated is true when the provider gave no figures and these were counted from the text.
	Estimated bool `json:"estimated,omitempty"`
}

// Kind classes what went wrong.
type Kind string

// The classes of failure. RateLimited, Overloaded, Cut, Timeout, Unreachable and Lacking are worth another
// try. Lacking means that this machine has no descriptor or memory left for the call. Auth includes a lack of
// credit: both need a person.
const (
	RateLimited Kind = "rate_limited"
	Overloaded  Kind = "overloaded"
	Auth        Kind = "auth"
	BadRequest  Kind = "bad_request"
	TooLong     Kind = "context_too_long"
	Cut         Kind = "stream_cut"
	Timeout     Kind = "timeout"
	Unreachable Kind = "unreachable"
	Lacking     Kind = "host_lacking"
	BadAnswer   Kind = "bad_answer"
)

// Error is a failed call with its class.
type Error struct {
	Kind       Kind
	Provider   string
	Model      string
	Status     int           // HTTP status, or 0
	RetryAfter time.Duration // as the provider asked, or 0
	Err        error
}

func (e *Error) Error() string {
	return fmt.Sprintf("call %s model %q: %s: %v", e.Provider, e.Model, e.Kind, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether another try can help.
func (e *Error) Temporary() bool {
	switch e.Kind {
	case RateLimited, Overloaded, Cut, Timeout, Unreachable, Lacking:
		return true
	}
	return false
}

// ErrNoTier is returned for a tier that the configuration does not know.
var ErrNoTier = errors.New("no such model tier")
