package plugin

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/sdk/proto/bounds"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// ToolSpec describes a tool in its provider's words, checked and bounded. What it says of its own effect informs people;
// the host's rules decide.
type ToolSpec struct {
	Name         string          // [a-zA-Z0-9_.-], at most 64 characters, unique in the provider
	Description  string          // at most 4 KiB
	InputSchema  json.RawMessage // JSON Schema, an object
	OutputSchema json.RawMessage // may be empty
	Effect       string          // read, write, destructive, network or execute; execute when it says nothing
	Idempotent   bool
	Timeout      time.Duration // hint; 0: the host's default
}

// ToolCall is one call that may run.
type ToolCall struct {
	ID   string
	Key  string // the same for a repeated try of one call
	Tool string
	Args json.RawMessage // canonical JSON
}

// ToolResult is how a call ended. It is untrusted data.
type ToolResult struct {
	Text       string
	IsError    bool
	Structured json.RawMessage // valid JSON, may be empty
	Media      []ToolMedia
}

// ToolMedia names a file in the host's media store, which need not be there.
type ToolMedia struct {
	SHA256 string // lower-case hex
	Type   string // media type, in the plugin's words
	Name   string
}

// Bounds on tool providers.
const (
	maxDescription = 4 << 10 // bytes
	maxToolOutput  = 8 << 20 // bytes of one call, progress included
	maxToolMedia   = 16      // count
)

// Tools lists the tools of a provider. Those that make no sense are left out, with a warning in the log.
func (c *Client) Tools(ctx context.Context) ([]ToolSpec, error) {
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	out, err := c.tools.List(ctx, &toolv1.ListRequest{})
	if err != nil {
		return nil, fmt.Errorf("list the tools of %s: %w", c.instance, err)
	}
	var specs []ToolSpec
	seen := map[string]bool{}
	for _, t := range out.GetTools()[:min(len(out.GetTools()), bounds.MaxTools)] {
		spec, err := toolFromWire(t)
		if err == nil && seen[spec.Name] {
			err = fmt.Errorf("tool %s is there twice", spec.Name)
		}
		if err != nil {
			c.log.Warn("dropped a malformed tool", "error", err.Error())
			continue
		}
		seen[spec.Name] = true
		specs = append(specs, spec)
	}
	return specs, nil
}

var effects = map[toolv1.Effect]string{
	toolv1.Effect_EFFECT_READ:        "read",
	toolv1.Effect_EFFECT_WRITE:       "write",
	toolv1.Effect_EFFECT_DESTRUCTIVE: "destructive",
	toolv1.Effect_EFFECT_NETWORK:     "network",
	toolv1.Effect_EFFECT_EXECUTE:     "execute",
}

func toolFromWire(t *toolv1.Tool) (ToolSpec, error) {
	if err := bounds.Tool(t.GetName(), t.GetInputSchemaJson(), t.GetOutputSchemaJson()); err != nil {
		return ToolSpec{}, err
	}
	description, _ := bounded(t.GetDescription(), maxDescription)
	effect, ok := effects[t.GetEffect()]
	if !ok {
		effect = "execute"
	}
	return ToolSpec{
		Name: t.GetName(), Description: description, Effect: effect, Idempotent: t.GetIdempotent(),
		InputSchema: t.GetInputSchemaJson(), OutputSchema: t.GetOutputSchemaJson(),
		Timeout: min(max(t.GetTimeoutHint().AsDuration(), 0), time.Hour),
	}, nil
}

// WatchTools calls changed now and whenever the list of tools has changed, until ctx ends (nil) or the stream breaks.
func (c *Client) WatchTools(ctx context.Context, changed func()) error {
	stream, err := c.tools.Watch(ctx, &toolv1.WatchRequest{})
	for err == nil {
		if _, err = stream.Recv(); err == nil {
			changed()
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("watch the tools of %s: %w", c.instance, err)
}

// CallTool runs one tool and passes its output to progress as it comes. A failure of the tool is a result; an error is a failure of
// the provider. The end of ctx cancels the tool.
func (c *Client) CallTool(ctx context.Context, call ToolCall, progress func(p []byte)) (ToolResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.tools.Call(ctx, &toolv1.CallRequest{
		CallId: call.ID, IdempotencyKey: call.Key, Tool: call.Tool, ArgumentsJson: call.Args,
	})
	if err == nil {
		var r ToolResult
		if r, err = c.toolFrames(stream, progress); err == nil {
			return r, nil
		}
	}
	return ToolResult{}, fmt.Errorf("call tool %s of %s: %w", call.Tool, c.instance, err)
}

// toolFrames reads frames up to the result. Frames of kinds that it does not know are ignored.
func (c *Client) toolFrames(stream grpc.ServerStreamingClient[toolv1.CallResponse], progress func([]byte)) (ToolResult, error) {
	left := maxToolOutput
	for {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return ToolResult{}, errors.New("the plugin broke the protocol: the call ended without a result")
		}
		if err != nil {
			return ToolResult{}, err
		}
		if r := frame.GetResult(); r != nil {
			return toolResult(r)
		}
		if l := frame.GetLog(); l != nil {
			text, _ := bounded(l.GetText(), maxDetail)
			c.log.Debug("tool says", "text", text)
		}
		if chunk := append(toolProgress(frame.GetProgress()), frame.GetChunk()...); len(chunk) > 0 {
			if left -= len(chunk); left < 0 {
				return ToolResult{}, fmt.Errorf("it wrote more than %d bytes", maxToolOutput)
			}
			progress(chunk)
		}
	}
}

func toolResult(r *toolv1.Result) (ToolResult, error) {
	if s := r.GetStructuredJson(); len(s) > 0 && !json.Valid(s) {
		return ToolResult{}, errors.New("the plugin broke the protocol: the structured result is not JSON")
	}
	text, _ := bounded(r.GetText(), maxToolOutput)
	out := ToolResult{Text: text, IsError: r.GetIsError(), Structured: r.GetStructuredJson()}
	for _, m := range r.GetMedia()[:min(len(r.GetMedia()), maxToolMedia)] {
		if sum, err := hex.DecodeString(m.GetSha256()); err != nil || len(sum) != 32 || hex.EncodeToString(sum) != m.GetSha256() {
			return ToolResult{}, errors.New("the plugin broke the protocol: a file of the result has no SHA-256")
		}
		kind, _ := bounded(m.GetMediaType(), maxID)
		name, _ := bounded(m.GetName(), maxID)
		out.Media = append(out.Media, ToolMedia{SHA256: m.GetSha256(), Type: kind, Name: name})
	}
	return out, nil
}

// toolProgress is a progress as text for people, or nothing.
func toolProgress(p *toolv1.Progress) []byte {
	if p == nil {
		return nil
	}
	text, _ := bounded(p.GetText(), maxDetail)
	switch done, total := p.GetDone(), p.GetTotal(); {
	case total > 0 && done >= 0:
		return fmt.Appendf(nil, "%g of %g %s\n", done, total, text)
	case text != "":
		return fmt.Appendf(nil, "%s\n", text)
	}
	return nil
}
