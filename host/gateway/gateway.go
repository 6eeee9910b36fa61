// Package gateway is Flynn's frontend for this machine: a loopback HTTP server with the chat
// page, the WebSocket behind it, a small JSON API, health and metrics.
//
// Start with New and Backend; protocol.go documents the WebSocket protocol. Every request
// passes guard.go: it must be addressed to the loopback name of the listener, come from the page's own
// origin or from no page at all, and, apart from the page's files, the health probes and the code of a sign-in, carry a token: auth.go says
// whose it is.
//
// The package does not route, decide about tools, or store anything: a message is accepted when Conversations.Submit
// has returned, and a client reads what it missed from Conversations.History. Package backend below it implements Backend with the areas
// of the host.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flynnhost/flynn/host/internal/redact"
	"github.com/flynnhost/flynn/host/observe/metrics"

	"golang.org/x/time/rate"
)

// Limits of the HTTP server. Requests and answers are small and the client is on this machine, so
// anything slow is stuck.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 15 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = 2 * time.Minute
	backendTimeout  = 10 * time.Second // of one call of the backend
	shutdownTimeout = 5 * time.Second
	maxHeader       = 16 << 10
	maxBody         = MaxBody
	maxClientBody   = 24 << 20 // of what API clients send below /v1/, with images in it
)

// MaxBody bounds the body of a request, in bytes: a text of message.MaxText in the worst JSON escaping.
const MaxBody = 512 << 10

// Config says where the gateway listens and who may speak to it.
type Config struct {
	// Listen is host:port with a loopback host; empty means 127.0.0.1:7351. Port 0 takes a free one.
	Listen string
	// TokenFile holds the token; it is created if it does not exist.
	TokenFile string
	// Origins lists further origins ("http://localhost:9000") whose pages and Host names are
	// accepted, for a forwarded port or a proxy.
	Origins []string
	// Clients may be nil.
	Clients *ClientAPIs
	// API serves the paths below /api/v1, apart from the socket: see package rest. Its requests have a Caller.
	API http.Handler
	// Previews serves the origins of previews; it may be nil.
	Previews PreviewOrigins
	// Idle may be nil: then idle connections are closed only when they time out.
	Idle *Idle
	// Log and Registry default to none.
	Log      *slog.Logger
	Registry *prometheus.Registry
}

// DefaultListen is the address when the configuration names none.
const DefaultListen = "127.0.0.1:7351"

// Server is the gateway. Its listener is open from New on, so Addr and URL are known before Run.
type Server struct {
	backend  Backend
	log      *slog.Logger
	listener net.Listener
	token    redact.Secret
	guard    guard
	failures *rate.Limiter // of answers to wrong tokens; beyond it they are neither logged nor answered in detail
	metrics  *metrics.Gateway
	clients  *ClientAPIs
	api      http.Handler
	previews PreviewOrigins // may be nil
	idle     *Idle
	// strangers are the sockets that have not shown a token, open counts the others, and sockets waits for the handlers of all.
	strangers strangers
	open      atomic.Int64
	terminals atomic.Int64 // that are open
	sockets   sync.WaitGroup
}

// New opens the listener and reads the token, or creates it. The caller must call Run or Close.
func New(cfg Config, backend Backend) (*Server, error) {
	cfg.Listen = cmp.Or(cfg.Listen, DefaultListen)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	origins, err := parseOrigins(cfg.Origins)
	if err != nil {
		return nil, err
	}
	tok, err := loadToken(cfg.TokenFile)
	if err != nil {
		return nil, err
	}
	m, err := metrics.NewGateway(cfg.Registry)
	if err != nil {
		return nil, fmt.Errorf("register the gateway's metrics: %w", err)
	}
	ln, err := listenLoopback(cfg.Listen)
	if err != nil {
		return nil, err
	}
	if cfg.Previews != nil {
		cfg.Previews.Listen(ln.Addr())
	}
	return &Server{
		backend:  backend,
		log:      cfg.Log,
		listener: ln,
		token:    tok,
		guard:    newGuard(ln.Addr().String(), origins, cfg.Previews),
		failures: rate.NewLimiter(failuresPerSecond, failuresBurst),
		metrics:  m,
		clients:  cfg.Clients,
		api:      cmp.Or(cfg.API, http.NotFoundHandler()),
		previews: cfg.Previews,
		idle:     cfg.Idle,
	}, nil
}

// Addr is the address that the gateway listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// PageURL is the address of the chat page of a gateway. The token is in the fragment, which browsers do not send.
func PageURL(gateway, token string) string {
	return strings.TrimRight(gateway, "/") + "/#token=" + token
}

// URL is the address of the chat page, with the token.
func (s *Server) URL() string {
	return PageURL("http://"+s.listener.Addr().String(), string(s.token))
}

// Close closes the listener of a server that was never run.
func (s *Server) Close() error { return s.listener.Close() }

// Run serves until ctx ends, and returns when every connection is closed. A server runs once.
func (s *Server) Run(ctx context.Context) error {
	s.log.Info("gateway listens", "addr", s.listener.Addr().String())
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	srv := &http.Server{Handler: s.withPreviews(s.handler()), ReadTimeout: readTimeout, WriteTimeout: writeTimeout}
	err := serve(ctx, serving, cancel, srv, s.listener, s.idle, s.log)
	cancel() // http.Server does not wait for sockets; they end with their context
	s.sockets.Wait()
	if err != nil {
		return fmt.Errorf("serve the gateway: %w", err)
	}
	return nil
}

// serve runs srv on ln until ctx ends, and returns when every connection is closed. Requests have the context base, which cut cancels if they
// outlive the grace of the shutdown.
func serve(ctx, base context.Context, cut func(), srv *http.Server, ln net.Listener, idle *Idle, log *slog.Logger) error {
	srv.ReadHeaderTimeout, srv.IdleTimeout, srv.MaxHeaderBytes = headerTimeout, idleTimeout, maxHeader
	srv.BaseContext = func(net.Listener) context.Context { return base }
	srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	closedAtShutdown(srv)
	failed := make(chan error, 1)
	go func() { failed <- idle.serve(srv, ln) }()
	var err error
	select {
	case err = <-failed:
		failed <- nil
	case <-ctx.Done():
	}
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer done()
	if srv.Shutdown(closing) != nil {
		cut()
		_ = srv.Close()
	}
	<-failed
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// listenLoopback opens addr and refuses anything that other machines could reach.
func listenLoopback(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("gateway listen %q is not host:port; write for example %q", addr, DefaultListen)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("gateway listen %q is not a loopback address; use %q and forward the port (ssh -L) or put a proxy with TLS before it",
			addr, DefaultListen)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; is another flynn running? set [gateway] listen to another port", addr, err)
	}
	// A resolver may map "localhost" to any address; only the address that it returned counts.
	if tcp, ok := ln.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		_ = ln.Close()
		return nil, fmt.Errorf("gateway listen %q resolves to %s, which is not loopback; write %q", addr, ln.Addr(), DefaultListen)
	}
	return ln, nil
}
