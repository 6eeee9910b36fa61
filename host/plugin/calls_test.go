package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/sdk/proto/bounds"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// provider answers tool and media calls with whatever a test puts in.
type provider struct {
	toolv1.UnimplementedToolsServer
	channelv1.UnimplementedChannelServer
	list  []*toolv1.Tool
	call  []*toolv1.CallResponse
	media []*channelv1.FetchResponse
	// sending is closed when Send is called, which never answers.
	sending chan struct{}
	// receive serves the stream of events.
	receive func(grpc.BidiStreamingServer[channelv1.ReceiveRequest, channelv1.ReceiveResponse]) error
}

func (p *provider) Receive(stream grpc.BidiStreamingServer[channelv1.ReceiveRequest, channelv1.ReceiveResponse]) error {
	return p.receive(stream)
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

func (p *provider) Fetch(_ *channelv1.FetchRequest, stream grpc.ServerStreamingServer[channelv1.FetchResponse]) error {
	for _, frame := range p.media {
		if err := stream.Send(frame); err != nil {
			return err
		}
	}
	return nil
}

// connect serves p in memory and returns a client of it.
func connect(t *testing.T, p *provider) *Client {
	t.Helper()
	c, _ := served(t, p)
	return c
}

// served is connect, with what ends the service.
func served(t *testing.T, p *provider) (*Client, func()) {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	g := grpc.NewServer()
	toolv1.RegisterToolsServer(g, p)
	channelv1.RegisterChannelServer(g, p)
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
	return newClient("one", message.Capabilities{}, conn, slog.New(slog.DiscardHandler), t.Context(), t.Context()), g.Stop
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
	specs, err := c.Tools(t.Context())
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
			got, err := connect(t, &provider{call: c.frames}).CallTool(t.Context(), ToolCall{Tool: "t"}, func([]byte) {})
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
	_, err := connect(t, &provider{call: frames}).CallTool(ctx, ToolCall{Tool: "hang"}, func([]byte) { cancel() })
	if err == nil || !strings.Contains(err.Error(), "Canceled") {
		t.Errorf("got %v", err)
	}
}

func TestWatchToolsTellsChanges(t *testing.T) {
	n := 0
	err := connect(t, &provider{}).WatchTools(t.Context(), func() { n++ })
	if n != 3 || err == nil {
		t.Errorf("%d changes, %v; want 3 and the end of the stream", n, err)
	}
}

func TestFetchHoldsTheBytesAgainstTheHead(t *testing.T) {
	sum := sha256.Sum256([]byte("hello world"))
	head := func(h *channelv1.MediaHead) *channelv1.FetchResponse {
		return &channelv1.FetchResponse{Frame: &channelv1.FetchResponse_Head{Head: h}}
	}
	chunk := func(s string) *channelv1.FetchResponse {
		return &channelv1.FetchResponse{Frame: &channelv1.FetchResponse_Chunk{Chunk: []byte(s)}}
	}
	for name, c := range map[string]struct {
		frames []*channelv1.FetchResponse
		says   string
	}{
		"good":          {[]*channelv1.FetchResponse{head(&channelv1.MediaHead{Size: 11, Sha256: hex.EncodeToString(sum[:])}), chunk("hello "), {}, chunk("world")}, ""},
		"unknown size":  {[]*channelv1.FetchResponse{head(&channelv1.MediaHead{}), chunk("hello world")}, ""},
		"no head":       {[]*channelv1.FetchResponse{chunk("hello world")}, "no head before the bytes"},
		"too large":     {[]*channelv1.FetchResponse{head(&channelv1.MediaHead{Size: 1000})}, "it has 1000 bytes, at most 100"},
		"grows":         {[]*channelv1.FetchResponse{head(&channelv1.MediaHead{}), chunk(strings.Repeat("x", 101))}, "more bytes than allowed"},
		"cut short":     {[]*channelv1.FetchResponse{head(&channelv1.MediaHead{Size: 11}), chunk("hello")}, "5 bytes came of 11"},
		"other content": {[]*channelv1.FetchResponse{head(&channelv1.MediaHead{Sha256: hex.EncodeToString(sum[:])}), chunk("hello_world")}, "not those of the digest"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := connect(t, &provider{media: c.frames}).Fetch(t.Context(), "h", 100)
			var text []byte
			if err == nil {
				text, err = io.ReadAll(m.Body)
				m.Body.Close()
			}
			if c.says == "" && (err != nil || string(text) != "hello world") {
				t.Errorf("got %q, %v", text, err)
			}
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
		})
	}
}

func (p *provider) Send(ctx context.Context, _ *channelv1.SendRequest) (*channelv1.SendResponse, error) {
	close(p.sending)
	<-ctx.Done()
	return nil, ctx.Err()
}

// A process that ends in the middle of a send leaves it unknown; what is sent after its end was surely not sent.
func TestSendsAtTheEndOfAProcess(t *testing.T) {
	p := &provider{sending: make(chan struct{})}
	c, end := served(t, p)
	done := make(chan message.Delivery, 1)
	go func() {
		out, _ := c.Send(t.Context(), message.Reply{Key: "k1"})
		done <- out
	}()
	<-p.sending
	end()
	if out := <-done; out.Outcome != message.Unknown {
		t.Errorf("the send under way: %+v", out)
	}
	if out, err := c.Send(t.Context(), message.Reply{Key: "k2"}); out.Outcome != message.NotSent || err == nil {
		t.Errorf("the send after the end: %+v, %v", out, err)
	}
}
