package channel

import (
	"context"
	"log/slog"
	"net"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/sdk/internal/process"
	"github.com/flynnhost/flynn/sdk/plugin"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Config is the configuration of one instance.
type Config = plugin.Config

// FieldError is an error in one setting.
type FieldError = plugin.FieldError

// FieldErrors is the error of Configure for wrong settings. The host shows them and does not try again until the configuration changes.
type FieldErrors = plugin.FieldErrors

// Main runs p as a plugin process and does not return. It ends when the host requests it, when the host is gone (standard input ends), or
// when Run fails.
func Main(p Channel) { plugin.Main(Part(p)) }

// Serve serves p on lis without a host's handshake, until ctx ends or the plugin ends. It is for tests and debuggers; the connection is
// neither encrypted nor authenticated.
func Serve(ctx context.Context, lis net.Listener, p Channel, log *slog.Logger) error {
	return plugin.Serve(ctx, lis, log, Part(p))
}

// Part returns p as one part of a plugin that has another kind, too; see sdk/plugin.
func Part(p Channel) plugin.Part {
	events, lease := newBacklog(), newLease()
	events.held = func() error {
		_, err := lease.held()
		return err
	}
	return plugin.Part{
		Kind:     pluginv1.Kind_KIND_CHANNEL,
		Describe: func(d *pluginv1.DescribeResponse) { describe(p, d) },
		Service:  channelv1.Channel_ServiceDesc.ServiceName,
		Endless:  []string{channelv1.Channel_Receive_FullMethodName},
		Register: func(g *grpc.Server, s *process.Server) {
			events.begin(s.Log())
			channelv1.RegisterChannelServer(g, &outbound{
				channel: p, server: s, backlog: events, lease: lease, sent: &recent{}, edits: &revisions{},
			})
		},
		Configure: p.Configure,
		Begin:     func(r *pluginv1.ConfigureRequest) { lease.begin(r.GetLease(), p.Describe().Capabilities.SendsApart) },
		Run: func(ctx context.Context, b *process.Board) error {
			return lease.run(ctx, b, events.disown, func(ctx context.Context) error { return p.Run(ctx, inbox{events, b}) })
		},
		End: events.end,
	}
}
