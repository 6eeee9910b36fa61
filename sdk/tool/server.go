package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/flynnhost/flynn/sdk/hostapi"
	"github.com/flynnhost/flynn/sdk/internal/process"
	"github.com/flynnhost/flynn/sdk/plugin"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// Part returns p as one part of a plugin that has another kind, too; see sdk/plugin.
func Part(p Provider) plugin.Part {
	t := &tools{provider: p, revision: 1, changed: make(chan struct{})}
	return plugin.Part{
		Kind:     pluginv1.Kind_KIND_TOOLS,
		Describe: t.describe,
		Service:  toolv1.Tools_ServiceDesc.ServiceName,
		Endless:  []string{toolv1.Tools_Watch_FullMethodName},
		Register: func(g *grpc.Server, s *process.Server) {
			t.server = s
			toolv1.RegisterToolsServer(g, t)
		},
		Configure: func(ctx context.Context, c Config) error {
			t.host, t.log = c.Host, c.Log
			return p.Configure(ctx, c)
		},
		Run: t.run,
	}
}

// tools serves flynn.tool.v1.Tools.
type tools struct {
	toolv1.UnimplementedToolsServer
	provider Provider
	server   *process.Server
	host     *hostapi.Host
	log      *slog.Logger

	mu       sync.Mutex
	revision uint64        // of the list
	changed  chan struct{} // closed and replaced with each revision
}

func (t *tools) describe(wire *pluginv1.DescribeResponse) {
	d := t.provider.Describe()
	wire.Name, wire.Version, wire.ConfigSchemaDigest = d.Name, d.Version, process.SchemaDigest(d.ConfigSchema)
	wire.Kinds = append(wire.Kinds, pluginv1.Kind_KIND_TOOLS)
	_, runs := t.provider.(Runner)
	wire.Tools = &toolv1.Capabilities{Watch: runs}
}

// board implements Board.
type board struct {
	*process.Board
	tools *tools
}

var _ Board = board{}

// Changed begins a new revision of the list.
func (b board) Changed() {
	b.tools.mu.Lock()
	defer b.tools.mu.Unlock()
	b.tools.revision++
	close(b.tools.changed)
	b.tools.changed = make(chan struct{})
}

func (t *tools) run(ctx context.Context, b *process.Board) error {
	if r, ok := t.provider.(Runner); ok {
		return r.Run(ctx, board{b, t})
	}
	b.Status(StateReady, "")
	<-ctx.Done()
	return nil
}

// frameMargin is the space that a frame needs besides its content.
const frameMargin = 16 << 10

// List lists the tools. Tools that do not fit into a frame are left out.
func (t *tools) List(ctx context.Context, _ *toolv1.ListRequest) (*toolv1.ListResponse, error) {
	list, err := t.provider.Tools(ctx)
	if err != nil {
		return nil, failed(err)
	}
	out, left := &toolv1.ListResponse{}, handshake.MaxFrame-frameMargin
	for i, one := range list {
		wire := toolToWire(one)
		if left -= proto.Size(wire) + 8; left < 0 {
			t.log.Warn("left out tools: the list is too long", "tools", len(list), "listed", i)
			break
		}
		out.Tools = append(out.Tools, wire)
	}
	return out, nil
}

func toolToWire(t Tool) *toolv1.Tool {
	wire := &toolv1.Tool{
		Name: process.UTF8(t.Name), Description: process.UTF8(t.Description), InputSchemaJson: t.Schema, OutputSchemaJson: t.Output,
		Idempotent: t.Idempotent,
	}
	if len(t.Schema) == 0 {
		wire.InputSchemaJson = []byte(`{"type":"object"}`)
	}
	if t.Effect > EffectUnknown && t.Effect <= Execute {
		wire.Effect = toolv1.Effect(t.Effect) // the protocol counts in the same order
	}
	if t.Timeout > 0 {
		wire.TimeoutHint = durationpb.New(t.Timeout)
	}
	return wire
}

// Watch sends the current revision and one after each change.
func (t *tools) Watch(_ *toolv1.WatchRequest, stream grpc.ServerStreamingServer[toolv1.WatchResponse]) error {
	ctx, cancel := t.server.Until(stream.Context())
	defer cancel()
	for {
		t.mu.Lock()
		revision, changed := t.revision, t.changed
		t.mu.Unlock()
		if err := stream.Send(&toolv1.WatchResponse{Revision: revision}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// Call runs one tool.
func (t *tools) Call(r *toolv1.CallRequest, stream grpc.ServerStreamingServer[toolv1.CallResponse]) error {
	c := &Call{ID: r.GetCallId(), Key: r.GetIdempotencyKey(), Tool: r.GetTool(), Args: r.GetArgumentsJson(), stream: stream}
	result, err := t.provider.Call(stream.Context(), c)
	if err != nil {
		return failed(err)
	}
	return c.finish(t.resultToWire(stream.Context(), result))
}

const (
	maxText       = 512 << 10 // bytes
	maxStructured = 256 << 10 // bytes
	maxMedia      = 16        // count
	maxNotes      = 16 << 10  // bytes
)

func (t *tools) resultToWire(ctx context.Context, r Result) *toolv1.Result {
	wire, notes := &toolv1.Result{IsError: r.IsError, Text: head(r.Text, maxText)}, ""
	if len(r.Text) > maxText {
		notes = fmt.Sprintf("\n[cut: %d bytes in all]", len(r.Text))
	}
	for i, m := range r.Media {
		one, err := t.put(ctx, i, m)
		if err != nil {
			notes += fmt.Sprintf("\n[%s of type %s is left out: %v]", orUnnamed(m.Name), orUnnamed(m.Type), err)
			continue
		}
		wire.Media = append(wire.Media, one)
	}
	if s := bytes.TrimSpace(r.Structured); len(s) > 0 {
		switch {
		case len(s) > maxStructured:
			notes += fmt.Sprintf("\n[the structured result is left out: it has %d bytes, at most %d]", len(s), maxStructured)
		case !json.Valid(s):
			notes += "\n[the structured result is left out: it is not JSON]"
		default:
			wire.StructuredJson = s
		}
	}
	wire.Text += head(notes, maxNotes)
	return wire
}

func (t *tools) put(ctx context.Context, i int, m Media) (*toolv1.Media, error) {
	if i >= maxMedia {
		return nil, fmt.Errorf("a result may have at most %d", maxMedia)
	}
	sum, err := t.host.PutMedia(ctx, m)
	if err != nil {
		return nil, err
	}
	return &toolv1.Media{Sha256: sum, MediaType: process.UTF8(m.Type), Name: process.UTF8(m.Name)}, nil
}

func orUnnamed(s string) string {
	if s == "" {
		return "a file"
	}
	return head(s, 128)
}

// failed adds a status code to the author's error, unless it has one.
func failed(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	if c := status.FromContextError(err).Code(); c != codes.Unknown {
		return status.Error(c, head(err.Error(), maxLine))
	}
	return status.Error(codes.Unavailable, head(err.Error(), maxLine))
}
