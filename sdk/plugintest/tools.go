package plugintest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/flynnhost/flynn/sdk/plugintest/wire"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
	"github.com/flynnhost/flynn/sdk/tool"
)

// ToolHost is a host with one running provider of tools.
type ToolHost struct {
	process
	tools toolv1.ToolsClient
}

// StartTools starts p and configures it. The plugin ends with the test.
func StartTools(t testing.TB, p tool.Provider, c Config) *ToolHost {
	t.Helper()
	h, err := TryStartTools(t, p, c)
	if err != nil {
		t.Fatalf("configure the plugin: %v", err)
	}
	return h
}

// TryStartTools is StartTools for settings that may be refused: the error is a tool.FieldErrors if they are wrong.
func TryStartTools(t testing.TB, p tool.Provider, c Config) (*ToolHost, error) {
	t.Helper()
	running, err := serve(t, withDefaults(t, c), tool.Part(p))
	if err != nil {
		return nil, err
	}
	h := &ToolHost{process: running}
	h.tools = toolv1.NewToolsClient(h.conn)
	return h, h.configure()
}

// Tools lists the tools as the plugin sends them.
func (h *ToolHost) Tools() []tool.Tool {
	h.t.Helper()
	r, err := h.tools.List(context.Background(), &toolv1.ListRequest{})
	if err != nil {
		h.t.Fatalf("list the tools: %v", err)
	}
	var out []tool.Tool
	for _, w := range r.GetTools() {
		out = append(out, tool.Tool{
			Name: w.GetName(), Description: w.GetDescription(), Schema: w.GetInputSchemaJson(), Output: w.GetOutputSchemaJson(),
			Effect: tool.Effect(w.GetEffect()), Idempotent: w.GetIdempotent(), Timeout: w.GetTimeoutHint().AsDuration(),
		})
	}
	return out
}

// Names returns the names of the tools, in order.
func (h *ToolHost) Names() []string {
	h.t.Helper()
	var names []string
	for _, t := range h.Tools() {
		names = append(names, t.Name)
	}
	return names
}

// Watch returns a channel of revisions of the list: the current one, and one for each change. It is closed when the plugin ends the stream.
func (h *ToolHost) Watch() <-chan uint64 {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h.t.Cleanup(cancel)
	stream, err := h.tools.Watch(ctx, wire.Grease(&toolv1.WatchRequest{}))
	if err != nil {
		h.t.Fatalf("watch the tools: %v", err)
	}
	out := make(chan uint64, 64)
	go func() { // ends with the test at the latest
		defer close(out)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case out <- r.GetRevision():
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// Outcome is the outcome of a call.
type Outcome struct {
	Text       string
	IsError    bool
	Structured json.RawMessage
	Media      []string // SHA-256 digests; the content is in Services
	Progress   []string // "DONE/TOTAL TEXT"
	Log        []string // "LEVEL TEXT"
	Output     []byte
}

// Call calls a tool and waits for its end; args are encoded as JSON. The error is a failure of the provider.
func (h *ToolHost) Call(name string, args any) (Outcome, error) {
	h.t.Helper()
	ctx, cancel := h.deadline()
	defer cancel()
	return h.CallContext(ctx, name, args, nil)
}

// CallContext is Call with the caller's context, which cancels the call. progress is called with each progress; it may be nil.
func (h *ToolHost) CallContext(ctx context.Context, name string, args any, progress func(string)) (Outcome, error) {
	h.t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		h.t.Fatal(err)
	}
	var out Outcome
	request := &toolv1.CallRequest{CallId: "call", IdempotencyKey: "key", Tool: name, ArgumentsJson: text}
	r, err := wire.Call(ctx, h.tools, request, func(frame *toolv1.CallResponse) {
		out.Output = append(out.Output, frame.GetChunk()...)
		if l := frame.GetLog(); l != nil {
			out.Log = append(out.Log, l.GetLevel()+" "+l.GetText())
		}
		if p := frame.GetProgress(); p != nil {
			out.Progress = append(out.Progress, fmt.Sprintf("%g/%g %s", p.GetDone(), p.GetTotal(), p.GetText()))
			if progress != nil {
				progress(out.Progress[len(out.Progress)-1])
			}
		}
	})
	out.Text, out.IsError, out.Structured = r.GetText(), r.GetIsError(), r.GetStructuredJson()
	for _, m := range r.GetMedia() {
		out.Media = append(out.Media, m.GetSha256())
	}
	return out, err
}
