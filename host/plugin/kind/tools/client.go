package tools

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/bounds"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// Spec is the provider's description of a tool, checked and bounded. Its claims about its effect are for people; the host's rules decide.
type Spec struct {
	Name         string          // [a-zA-Z0-9_.-], at most 64 characters, unique in the provider
	Description  string          // at most 4 KiB
	InputSchema  json.RawMessage // JSON Schema, an object
	OutputSchema json.RawMessage // may be empty
	Effect       string          // read, write, destructive, network or execute, which is the default
	Idempotent   bool
	Timeout      time.Duration // hint; 0: the host's default
}

// Call is one call that may run.
type Call struct {
	ID   string
	Key  string // the same for repetitions of one call
	Tool string
	Args json.RawMessage // canonical JSON
}

// Result is the result of a call. It is untrusted data.
type Result struct {
	Text       string
	IsError    bool
	Structured json.RawMessage // valid JSON, may be empty
	Media      []Media
}

// Media names a file in the host's media store, which need not be there.
type Media struct {
	SHA256 string // lower-case hex
	Type   string // media type, as the plugin says
	Name   string
}

// Bounds on tool providers.
const (
	maxDescription = 4 << 10 // bytes
	maxOutput      = 8 << 20 // bytes of one call, including progress
	maxMedia       = 16      // count
)

// Client is the client of one ready provider, for the duration of one Handler.Serve. It can be used by many goroutines.
type Client struct {
	*kind.Conn
	rpc toolv1.ToolsClient
}

// NewClient returns the client of a ready process.
func NewClient(c *kind.Conn) *Client { return &Client{c, toolv1.NewToolsClient(c)} }

// List returns the tools of a provider. Invalid ones are left out, with a warning in the log.
func (c *Client) List(ctx context.Context) ([]Spec, error) {
	ctx, cancel := context.WithTimeout(ctx, kind.MaxCall)
	defer cancel()
	out, err := c.rpc.List(ctx, &toolv1.ListRequest{})
	if err != nil {
		return nil, fmt.Errorf("list the tools of %s: %w", c.Instance, err)
	}
	var specs []Spec
	seen := map[string]bool{}
	for _, t := range out.GetTools()[:min(len(out.GetTools()), bounds.MaxTools)] {
		spec, err := specFromWire(t)
		if err == nil && seen[spec.Name] {
			err = fmt.Errorf("tool %s is there twice", spec.Name)
		}
		if err != nil {
			c.Log.Warn("dropped a malformed tool", "error", err.Error())
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

func specFromWire(t *toolv1.Tool) (Spec, error) {
	if err := bounds.Tool(t.GetName(), t.GetInputSchemaJson(), t.GetOutputSchemaJson()); err != nil {
		return Spec{}, err
	}
	effect, ok := effects[t.GetEffect()]
	if !ok {
		effect = "execute"
	}
	return Spec{
		Name: t.GetName(), Description: kind.Text(t.GetDescription(), maxDescription), Effect: effect, Idempotent: t.GetIdempotent(),
		InputSchema: t.GetInputSchemaJson(), OutputSchema: t.GetOutputSchemaJson(),
		Timeout: min(max(t.GetTimeoutHint().AsDuration(), 0), time.Hour),
	}, nil
}

// Watch calls changed now and whenever the list of tools has changed, until ctx ends (nil) or the stream breaks.
func (c *Client) Watch(ctx context.Context, changed func()) error {
	stream, err := c.rpc.Watch(ctx, &toolv1.WatchRequest{})
	for err == nil {
		if _, err = stream.Recv(); err == nil {
			changed()
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("watch the tools of %s: %w", c.Instance, err)
}

// Call runs one tool and passes its output to progress as it comes. A failure of the tool is a Result; an error is a failure of the
// provider. Cancelling ctx cancels the tool.
func (c *Client) Call(ctx context.Context, call Call, progress func(p []byte)) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.rpc.Call(ctx, &toolv1.CallRequest{
		CallId: call.ID, IdempotencyKey: call.Key, Tool: call.Tool, ArgumentsJson: call.Args,
	})
	if err == nil {
		var r Result
		if r, err = c.frames(stream, progress); err == nil {
			return r, nil
		}
	}
	return Result{}, fmt.Errorf("call tool %s of %s: %w", call.Tool, c.Instance, err)
}

// frames reads frames up to the result. Unknown kinds of frames are ignored.
func (c *Client) frames(stream grpc.ServerStreamingClient[toolv1.CallResponse], progress func([]byte)) (Result, error) {
	left := maxOutput
	for {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return Result{}, errors.New("the plugin broke the protocol: the call ended without a result")
		}
		if err != nil {
			return Result{}, err
		}
		if r := frame.GetResult(); r != nil {
			return resultFromWire(r)
		}
		if l := frame.GetLog(); l != nil {
			c.Log.Debug("tool log", "text", kind.Text(l.GetText(), kind.MaxDetail))
		}
		if chunk := append(progressText(frame.GetProgress()), frame.GetChunk()...); len(chunk) > 0 {
			if left -= len(chunk); left < 0 {
				return Result{}, fmt.Errorf("it wrote more than %d bytes", maxOutput)
			}
			progress(chunk)
		}
	}
}

func resultFromWire(r *toolv1.Result) (Result, error) {
	if s := r.GetStructuredJson(); len(s) > 0 && !json.Valid(s) {
		return Result{}, errors.New("the plugin broke the protocol: the structured result is not JSON")
	}
	out := Result{Text: kind.Text(r.GetText(), maxOutput), IsError: r.GetIsError(), Structured: r.GetStructuredJson()}
	for _, m := range r.GetMedia()[:min(len(r.GetMedia()), maxMedia)] {
		if sum, err := hex.DecodeString(m.GetSha256()); err != nil || len(sum) != 32 || hex.EncodeToString(sum) != m.GetSha256() {
			return Result{}, errors.New("the plugin broke the protocol: a file of the result has no SHA-256")
		}
		mediaType, name := kind.Text(m.GetMediaType(), kind.MaxName), kind.Text(m.GetName(), kind.MaxName)
		out.Media = append(out.Media, Media{SHA256: m.GetSha256(), Type: mediaType, Name: name})
	}
	return out, nil
}

// progressText is a progress as text for people, or nothing.
func progressText(p *toolv1.Progress) []byte {
	if p == nil {
		return nil
	}
	text := kind.Text(p.GetText(), kind.MaxDetail)
	switch done, total := p.GetDone(), p.GetTotal(); {
	case total > 0 && done >= 0:
		return fmt.Appendf(nil, "%g of %g %s\n", done, total, text)
	case text != "":
		return fmt.Appendf(nil, "%s\n", text)
	}
	return nil
}
