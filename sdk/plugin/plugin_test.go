package plugin_test

import (
	"context"
	"log/slog"
	"net"
	"slices"
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
type chat struct{ configured, running chan string }

func (c *chat) Describe() channel.Description {
	return channel.Description{Name: "both", Version: "1.0.0"}
}

func (c *chat) Configure(_ context.Context, config channel.Config) error {
	c.configured <- "chat " + config.Instance
	return nil
}

func (c *chat) Run(ctx context.Context, _ channel.Inbox) error {
	c.running <- "chat"
	<-ctx.Done()
	return nil
}

func (c *chat) Send(_ context.Context, s channel.Send) (channel.Sent, error) {
	return channel.Sent{MessageIDs: []string{s.Key}}, nil
}

// box is a provider of one tool.
type box struct{ configured, running chan string }

func (b *box) Describe() tool.Description { return tool.Description{Name: "both", Version: "1.0.0"} }

func (b *box) Configure(_ context.Context, config tool.Config) error {
	b.configured <- "box " + config.Instance
	return nil
}

func (b *box) Run(ctx context.Context, _ tool.Board) error {
	b.running <- "box"
	<-ctx.Done()
	return nil
}

func (b *box) Tools(context.Context) ([]tool.Tool, error) { return []tool.Tool{{Name: "one"}}, nil }

func (b *box) Call(context.Context, *tool.Call) (tool.Result, error) { return tool.Text("done"), nil }

// both serves a channel and a tool from one process, and returns what its parts say when they are configured and run.
func both(t *testing.T) (conn *grpc.ClientConn, configured, running chan string) {
	t.Helper()
	configured, running = make(chan string, 2), make(chan string, 2)
	lis := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() {
		ended <- plugin.Serve(ctx, lis, slog.New(slog.DiscardHandler), channel.Part(&chat{configured, running}), tool.Part(&box{configured, running}))
	}()
	conn, err := grpc.NewClient("passthrough:both", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = conn.Close()
	})
	return conn, configured, running
}

func TestPluginOfBothKinds(t *testing.T) {
	conn, configured, _ := both(t)
	ctx := t.Context()
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
}

// TestTheKindThatIsUsedRuns has an instance of a plugin of both kinds do the work of one.
func TestTheKindThatIsUsedRuns(t *testing.T) {
	for kind, want := range map[pluginv1.Kind][]string{
		pluginv1.Kind_KIND_CHANNEL: {"chat"}, pluginv1.Kind_KIND_TOOLS: {"box"}, pluginv1.Kind_KIND_UNSPECIFIED: {"box", "chat"},
	} {
		t.Run(kind.String(), func(t *testing.T) {
			conn, _, running := both(t)
			base := pluginv1.NewPluginClient(conn)
			if _, err := base.Configure(t.Context(), &pluginv1.ConfigureRequest{Instance: "x", Kind: kind}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for range want {
				got = append(got, <-running)
			}
			slices.Sort(got)
			if _, err := base.Shutdown(t.Context(), &pluginv1.ShutdownRequest{}); err != nil { // by its end each part that was to run has begun
				t.Fatal(err)
			}
			select {
			case more := <-running:
				got = append(got, more)
			default:
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q run, want %q", got, want)
			}
		})
	}
}
