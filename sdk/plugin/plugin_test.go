package plugin_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugin"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
	"github.com/flynnhost/flynn/sdk/tool"
)

// chat is a channel that says nothing.
type chat struct{ configured chan string }

func (c *chat) Describe() channel.Description {
	return channel.Description{Name: "both", Version: "1.0.0"}
}

func (c *chat) Configure(_ context.Context, config channel.Config) error {
	c.configured <- "chat " + config.Instance
	return nil
}

func (c *chat) Run(ctx context.Context, _ channel.Inbox) error { <-ctx.Done(); return nil }

func (c *chat) Send(_ context.Context, s channel.Send) (channel.Sent, error) {
	return channel.Sent{MessageIDs: []string{s.Key}}, nil
}

// box is a provider of one tool.
type box struct{ configured chan string }

func (b *box) Describe() tool.Description { return tool.Description{Name: "both", Version: "1.0.0"} }

func (b *box) Configure(_ context.Context, config tool.Config) error {
	b.configured <- "box " + config.Instance
	return nil
}

func (b *box) Tools(context.Context) ([]tool.Tool, error) { return []tool.Tool{{Name: "one"}}, nil }

func (b *box) Call(context.Context, *tool.Call) (tool.Result, error) { return tool.Text("done"), nil }

// TestPluginOfBothKinds serves a channel and a tool from one process.
func TestPluginOfBothKinds(t *testing.T) {
	configured := make(chan string, 2)
	lis := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- plugin.Serve(ctx, lis, slog.New(slog.DiscardHandler), channel.Part(&chat{configured}), tool.Part(&box{configured}))
	}()
	conn, err := grpc.NewClient("passthrough:both", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	base, chats, tools := pluginv1.NewPluginClient(conn), channelv1.NewChannelClient(conn), toolv1.NewToolsClient(conn)
	d, err := base.Describe(ctx, &pluginv1.DescribeRequest{})
	if err != nil || len(d.GetKinds()) != 2 || d.GetName() != "both" || d.GetChannel() == nil || d.GetTools() == nil {
		t.Fatalf("describe: %v, %v", d, err)
	}
	if _, err := tools.List(ctx, &toolv1.ListRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("list before configure: %v", err)
	}
	if _, err := base.Configure(ctx, &pluginv1.ConfigureRequest{Instance: "x"}); err != nil {
		t.Fatal(err)
	}
	if first, second := <-configured, <-configured; first != "chat x" || second != "box x" {
		t.Errorf("configured %q, %q", first, second)
	}
	if out, err := tools.List(ctx, &toolv1.ListRequest{}); err != nil || len(out.GetTools()) != 1 {
		t.Errorf("list: %v, %v", out, err)
	}
	if out, err := chats.Send(ctx, &channelv1.SendRequest{IdempotencyKey: "k"}); err != nil || out.GetOutcome() != channelv1.Outcome_OUTCOME_SENT {
		t.Errorf("send: %v, %v", out, err)
	}
	if _, err := base.Shutdown(ctx, &pluginv1.ShutdownRequest{}); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
