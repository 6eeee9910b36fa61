package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// Main runs parts as a plugin process and does not return. It ends when the host requests it, when the host is gone (standard input ends),
// or when Run fails.
func Main(parts ...Part) {
	os.Exit(run(parts, os.Stdin, os.Stderr))
}

// run is Main without the exit. None of the author's code runs before go-plugin has written its line and captured standard output, so that
// a stray print cannot break the handshake.
func run(parts []Part, stdin io.Reader, stderr io.Writer) int {
	if os.Getenv(handshake.CookieKey) != handshake.CookieValue && wantsDebug(os.Args[1:]) {
		return debug(parts, os.Stdout, stderr)
	}
	if os.Getenv(handshake.CookieKey) != handshake.CookieValue {
		d := describe(parts)
		fmt.Fprintf(stderr, "%s %s is a Flynn plugin; the host starts it.\nInstall it with: flynn plugin install DIR\nTo run it under a debugger, add -debug.\n", d.Name, d.Version)
		return 2
	}
	level := &slog.LevelVar{}
	s := newServer(parts, newLog(stderr, level), level)
	go lifeline(stdin, s) // blocks in a read until the process ends

	serveHost(s)

	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	s.drain(ctx)
	s.hangUp()
	if s.failure != nil {
		s.log.Error("plugin failed", "error", s.failure.Error())
		return 1
	}
	return 0
}

// lifeline ends the process when standard input ends: the host holds the other end and never writes.
func lifeline(stdin io.Reader, s *Server) {
	_, _ = io.Copy(io.Discard, stdin)
	s.finish(errors.New("the host is gone"))
}

// serveHost serves the go-plugin handshake and then s until s is over.
func serveHost(s *Server) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			ProtocolVersion:  handshake.Protocol,
			MagicCookieKey:   handshake.CookieKey,
			MagicCookieValue: handshake.CookieValue,
		},
		Plugins: plugin.PluginSet{handshake.Service: &adapter{server: s}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			g := newGRPCServer(s, opts)
			go stopWhenOver(g, s) // ends with the server
			return g
		},
		Logger: hclog.NewNullLogger(),
	})
}

// adapter implements the interface that go-plugin requires for registering services.
type adapter struct {
	plugin.NetRPCUnsupportedPlugin
	server *Server
}

// GRPCServer registers the services.
func (a *adapter) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	a.server.register(g)
	return nil
}

// GRPCClient is the host's half, which a plugin does not have.
func (a *adapter) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin has no client")
}

// stopWhenOver stops g when s is over, after answers in flight were sent.
func stopWhenOver(g *grpc.Server, s *Server) {
	<-s.over
	s.halt() // ends the streams, for which GracefulStop would wait
	patience := drainTimeout
	if s.failure != nil {
		patience = failTimeout
	}
	hard := time.AfterFunc(patience, g.Stop)
	defer hard.Stop()
	g.GracefulStop()
}

// Serve serves parts on lis without a host's handshake, until ctx ends or the plugin ends. It is for tests and debuggers; the connection is
// neither encrypted nor authenticated.
func Serve(ctx context.Context, lis net.Listener, log *slog.Logger, parts ...Part) error {
	return serve(ctx, lis, log, &slog.LevelVar{}, parts)
}

func serve(ctx context.Context, lis net.Listener, log *slog.Logger, level *slog.LevelVar, parts []Part, opts ...grpc.ServerOption) error {
	s := newServer(parts, log, level)
	g := newGRPCServer(s, opts)
	s.register(g)
	h := health.NewServer()
	h.SetServingStatus(handshake.Service, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(g, h)

	release := context.AfterFunc(ctx, func() { s.finish(nil) })
	defer release()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stopWhenOver(g, s)
	}()
	err := g.Serve(lis)
	s.finish(err)
	<-stopped
	s.running.Wait()
	s.calls.Wait()
	s.hangUp()
	return s.failure
}
