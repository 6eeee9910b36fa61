package tools

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/bounds"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// provider answers calls with whatever a test puts in.
type provider struct {
	toolv1.UnimplementedToolsServer
	list []*toolv1.Tool
	call []*toolv1.CallResponse
}

func (p *provider) List(context.Context, *toolv1.ListRequest) (*toolv1.ListResponse, error) {
	return &toolv1.ListResponse{Tools: p.list}, nil
}

func (p *provider) Watch(_ *toolv1.WatchRequest, stream grpc.ServerStreamingServer[toolv1.WatchResponse]) error {
	for i := range 3 {
		if err := stream.Send(&toolv1.WatchResponse{Revision: uint64(i)}); err != nil {
			return err
		}
	}
	return nil
}

func (p *provider) Call(r *toolv1.CallRequest, stream grpc.ServerStreamingServer[toolv1.CallResponse]) error {
	for _, frame := range p.call {
		if err := stream.Send(frame); err != nil {
			return err
		}
	}
	if r.Tool == "hang" {
		<-stream.Context().Done()
	}
	return nil
}

// connect serves p in memory and returns a client of it.
func connect(t *testing.T, p *provider) *Client {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	g := grpc.NewServer()
	toolv1.RegisterToolsServer(g, p)
	over := make(chan error, 1)
	go func() { over <- g.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:p", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		g.Stop()
		<-over
	})
	return NewClient(&kind.Conn{ClientConnInterface: conn, Instance: "one", Log: slog.New(slog.DiscardHandler), Gone: t.Context(), Draining: t.Context()})
}

func TestToolsAreCheckedAndBounded(t *testing.T) {
	object := []byte(`{"type":"object"}`)
	c := connect(t, &provider{list: []*toolv1.Tool{
		{Name: "web.search", Description: strings.Repeat("é", 4096), InputSchemaJson: object, Effect: toolv1.Effect_EFFECT_READ},
		{Name: "web.search", InputSchemaJson: object},
		{Name: "bad name", InputSchemaJson: object},
		{Name: "no-schema"},
		{Name: "list-schema", InputSchemaJson: []byte(`[]`)},
		{Name: "null-schema", InputSchemaJson: []byte(`null`)},
		{Name: "broken-output", InputSchemaJson: object, OutputSchemaJson: []byte(`{`)},
		{Name: "long-schema", InputSchemaJson: []byte(`{"x":"` + strings.Repeat("x", bounds.MaxSchema) + `"}`)},
		{Name: "unknown-effect", InputSchemaJson: object, Effect: 99},
	}})
	specs, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(specs) != 2 || specs[0].Name != "web.search" || specs[0].Effect != "read" || len(specs[0].Description) > maxDescription {
		t.Errorf("got %d tools: %+v", len(specs), specs)
	}
	if specs[1].Name != "unknown-effect" || specs[1].Effect != "execute" {
		t.Errorf("an unknown effect became %+v", specs[1])
	}
}

func TestCallTool(t *testing.T) {
	chunk := func(s string) *toolv1.CallResponse {
		return &toolv1.CallResponse{Frame: &toolv1.CallResponse_Chunk{Chunk: []byte(s)}}
	}
	result := func(r *toolv1.Result) *toolv1.CallResponse {
		return &toolv1.CallResponse{Frame: &toolv1.CallResponse_Result{Result: r}}
	}
	megabyte := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		frames []*toolv1.CallResponse
		want   string // text, with "!" in front for a failure of the tool
		says   string // in the error
	}{
		"result":         {[]*toolv1.CallResponse{chunk("a"), {}, chunk("b"), result(&toolv1.Result{Text: "done"})}, "done", ""},
		"failure":        {[]*toolv1.CallResponse{result(&toolv1.Result{Text: "no such page", IsError: true})}, "!no such page", ""},
		"no result":      {[]*toolv1.CallResponse{chunk("a")}, "", "ended without a result"},
		"broken JSON":    {[]*toolv1.CallResponse{result(&toolv1.Result{StructuredJson: []byte("{")})}, "", "is not JSON"},
		"endless output": {append(repeat(chunk(megabyte), 9), result(&toolv1.Result{})), "", "more than 8388608 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := connect(t, &provider{call: c.frames}).Call(t.Context(), Call{Tool: "t"}, func([]byte) {})
			text := got.Text
			if got.IsError {
				text = "!" + text
			}
			if text != c.want || c.says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, %v; want %q, %q", text, err, c.want, c.says)
			}
		})
	}
}

func repeat[T any](v T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func TestCancelEndsAToolCall(t *testing.T) {
	frames := []*toolv1.CallResponse{{Frame: &toolv1.CallResponse_Chunk{Chunk: []byte("started")}}}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := connect(t, &provider{call: frames}).Call(ctx, Call{Tool: "hang"}, func([]byte) { cancel() })
	if err == nil || !strings.Contains(err.Error(), "Canceled") {
		t.Errorf("got %v", err)
	}
}

func TestWatchToolsTellsChanges(t *testing.T) {
	n := 0
	err := connect(t, &provider{}).Watch(t.Context(), func() { n++ })
	if n != 3 || err == nil {
		t.Errorf("%d changes, %v; want 3 and the end of the stream", n, err)
	}
}
