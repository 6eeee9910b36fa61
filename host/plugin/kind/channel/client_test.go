package channel

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
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// provider answers calls with whatever a test puts in.
type provider struct {
	channelv1.UnimplementedChannelServer
	media []*channelv1.FetchResponse
	// sending is closed when Send is called, which never answers.
	sending chan struct{}
	// receive serves the stream of events.
	receive func(grpc.BidiStreamingServer[channelv1.ReceiveRequest, channelv1.ReceiveResponse]) error
}

func (p *provider) Receive(stream grpc.BidiStreamingServer[channelv1.ReceiveRequest, channelv1.ReceiveResponse]) error {
	return p.receive(stream)
}

func (p *provider) Fetch(_ *channelv1.FetchRequest, stream grpc.ServerStreamingServer[channelv1.FetchResponse]) error {
	for _, frame := range p.media {
		if err := stream.Send(frame); err != nil {
			return err
		}
	}
	return nil
}

// connect serves a channel in memory and returns a client of it.
func connect(t *testing.T, p channelv1.ChannelServer) *Client {
	t.Helper()
	c, _ := served(t, p)
	return c
}

// served is connect, with what ends the service.
func served(t *testing.T, p channelv1.ChannelServer) (*Client, func()) {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	g := grpc.NewServer()
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
	ready := &kind.Conn{ClientConnInterface: conn, Instance: "one", Log: slog.New(slog.DiscardHandler), Gone: t.Context(), Draining: t.Context()}
	return NewClient(ready), g.Stop
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
