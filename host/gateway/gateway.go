// Package gateway is Flynn's local door: a loopback HTTP server with the chat
// page, the WebSocket behind it, a small JSON API, health and metrics.
//
// Start with New and Backend; protocol.go documents the WebSocket protocol. Every request
// passes guard.go: it must be addressed to the loopback name of the listener, come from the page's own
// origin or from no page at all, and, apart from the page's files and the health probes, carry the token.
//
// The package shows and forwards. It does not route, decide about tools, or keep anything: a message counts
// as accepted when Backend.Submit has returned, and what a client missed it reads again from Backend.History.
package gateway

import (
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
	maxBody         = 512 << 10 // bytes; a text of message.MaxText in the worst JSON escaping
	maxProgramBody  = 24 << 20  // of what programs send below /v1/, with images in it
)

// Config says where the gateway listens and who may speak to it.
type Config struct {
	// Listen is host:port with a loopback host; empty means 127.0.0.1:7351. Port 0 takes a free one.
	Listen string
	// TokenFile holds the token; it is made when it does not exist.
	TokenFile string
	// Origins lists further origins ("http://localhost:9000") whose pages and Host names are
	// accepted, for a forwarded port or a proxy.
	Origins []string
	// Programs may be nil.
	Programs *Programs
	// Idle may be nil: then no connection is given up before its time.
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
	failures failures
	metrics  *metrics
	programs *Programs
	idle     *Idle
	// strangers are the sockets without a token, open counts the others, held against maxSockets; sockets waits for the handlers of all.
	strangers strangers
	open      atomic.Int64
	sockets   sync.WaitGroup
}

// New opens the listener and reads the token, or makes it. The caller must call Run, or Close.
func New(cfg Config, backend Backend) (*Server, error) {
	if cfg.Listen == "" {
		cfg.Listen = DefaultListen
	}
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
	m, err := newMetrics(cfg.Registry)
	if err != nil {
		return nil, fmt.Errorf("register the gateway's metrics: %w", err)
	}
	ln, err := listenLoopback(cfg.Listen)
	if err != nil {
		return nil, err
	}
	return &Server{
		backend:  backend,
		log:      cfg.Log,
		listener: ln,
		token:    tok,
		guard:    newGuard(ln.Addr().String(), origins),
		failures: newFailures(),
		metrics:  m,
		programs: cfg.Programs,
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

// Close gives up the listener of a server that was never run.
func (s *Server) Close() error { return s.listener.Close() }

// Run serves until ctx ends, and returns when every connection is closed. A server runs once.
func (s *Server) Run(ctx context.Context) error {
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	srv := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return serving },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- s.idle.serve(srv, s.listener) }()
	s.log.Info("gateway listens", "addr", s.listener.Addr().String())

	var err error
	select {
	case err = <-failed:
		failed <- nil
	case <-ctx.Done():
	}
	cancel() // sockets are not Shutdown's; they end with their context
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer done()
	if srv.Shutdown(closing) != nil {
		_ = srv.Close() // a request outlived the grace; cut it
	}
	s.sockets.Wait()
	<-failed
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the gateway: %w", err)
	}
	return nil
}

// listenLoopback opens addr and refuses anything that other machines could reach.
func listenLoopback(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("gateway listen %q is not host:port; write for example %q", addr, DefaultListen)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("gateway listen %q is not a loopback address; use %q and forward the port (ssh -L) or put a proxy with TLS before it", addr, DefaultListen)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; is another flynn running? set [gateway] listen to another port", addr, err)
	}
	// "localhost" is whatever the resolver says; only the address that it became counts.
	if tcp, ok := ln.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		_ = ln.Close()
		return nil, fmt.Errorf("gateway listen %q resolves to %s, which is not loopback; write %q", addr, ln.Addr(), DefaultListen)
	}
	return ln, nil
}
