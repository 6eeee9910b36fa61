// Package service has the host services for running plugins, flynn.host.v1: a small durable map, media, webhooks, counters.
//
// Start with Server: New, Listen, Run. Package plugin calls Admit for each process that it starts and passes the token to it; a token
// identifies the instance and the services that its manifest was granted, and is void when the process ends. Hooks is the other side of
// webhooks: an http.Handler for requests from anywhere.
//
// Calls come from plugins, which are treated as hostile, and HTTP requests from the internet. Everything is bounded per instance, so that
// only the instance that does too much is refused: see limits.go. The package stores only the paths of webhooks itself.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/media"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

// The services, as plugin.toml names them under permissions.host.
const (
	Values   = "kv"
	Media    = "media"
	Webhooks = "webhook"
	Counters = "metric"
)

// Names are all services.
func Names() []string { return []string{Values, Media, Webhooks, Counters} }

// MediaStore stores media; *media.Store implements it.
type MediaStore interface {
	Put(context.Context, media.Head, io.Reader) (media.Info, error)
	Open(ctx context.Context, digest string) (io.ReadCloser, media.Info, error)
}

// Config configures a Server. Values and Media are required.
type Config struct {
	Values store.Values
	Media  MediaStore
	// MediaPerHour bounds the bytes that one instance stores, on average; by default 512 MiB.
	MediaPerHour int64
	// PublicURL is the address at which platforms reach the handler that Hooks returns, without a slash at its end. If it is empty, there
	// are no webhooks.
	PublicURL string
	Log       *slog.Logger

	// Events gets Counted, Called and HookServed; it may be nil.
	Events *event.Bus
	// OnServe is called when an instance begins to serve a webhook, with its address. It must not block.
	OnServe func(instance, url string)
}

// Server serves the services to all plugins of a host.
type Server struct {
	hostv1.UnimplementedHostServer
	config   Config
	log      *slog.Logger
	listener net.Listener   // nil before Listen
	work     sync.WaitGroup // goroutines of streams, which may end a little after their handlers

	mu       sync.Mutex
	guests   map[*guest]bool
	started  uint64              // guests so far
	accounts map[string]*account // by instance
	routes   map[string]*route   // by instance and path
}

// New returns a server. It admits nobody before Listen.
func New(c Config) (*Server, error) {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.MediaPerHour = cmp.Or(c.MediaPerHour, 512<<20)
	if c.OnServe == nil {
		c.OnServe = func(string, string) {}
	}
	s := &Server{
		config: c, log: c.Log.With("component", "service"),
		guests: map[*guest]bool{}, accounts: map[string]*account{}, routes: map[string]*route{},
	}
	if err := s.remember(context.Background()); err != nil {
		return nil, fmt.Errorf("prepare the services for plugins: %w", err)
	}
	return s, nil
}

// Listen opens the socket, in a folder that only this user can access. A socket that a killed host has left is replaced.
func (s *Server) Listen(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listen for plugins: %w", err)
	}
	lis, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return fmt.Errorf("listen for plugins: %w", err)
	}
	s.listener = bounded(lis)
	return nil
}

// Run serves until ctx ends and returns when every call has ended.
func (s *Server) Run(ctx context.Context) error {
	g := grpc.NewServer(
		grpc.MaxRecvMsgSize(handshake.MaxFrame), grpc.MaxSendMsgSize(handshake.MaxFrame+MaxHookBody),
		grpc.MaxHeaderListSize(maxHeaderList), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(connectTimeout), grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: maxIdle}),
		grpc.InitialWindowSize(64<<10), grpc.InitialConnWindowSize(1<<20),
		grpc.UnaryInterceptor(s.guardCall), grpc.StreamInterceptor(s.guardStream), grpc.WaitForHandlers(true),
	)
	hostv1.RegisterHostServer(g, s)
	served := make(chan error, 1)
	go func() { served <- g.Serve(s.listener) }()
	var err error
	select {
	case err = <-served:
		served <- nil
	case <-ctx.Done():
	}
	s.revokeAll()
	g.Stop()
	<-served
	s.work.Wait()
	if err != nil {
		return fmt.Errorf("serve plugins: %w", err)
	}
	return nil
}

// Bounds of connections.
const (
	maxHeaderList  = 16 << 10
	maxStreams     = 64 // of one connection
	connectTimeout = 5 * time.Second
	maxIdle        = 5 * time.Minute // of a connection without calls
)
