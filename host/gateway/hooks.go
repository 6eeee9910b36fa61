package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Hooks is the listener for the webhooks of platforms, apart from the gateway's so that a proxy that is open to the internet, however
// it is configured, cannot lead to the page and its API. It has no token and no guard; the handler has to be made for that.
type Hooks struct {
	listener net.Listener
	log      *slog.Logger
	// Idle may be set before Run.
	Idle *Idle
}

// Limits of the listener for webhooks. Its clients are proxies on this machine, and what they let through.
const (
	hooksReadTimeout = 15 * time.Second // of a whole request
	hooksTimeout     = 40 * time.Second // from its header to the end of the answer; the handler's own deadline is shorter
	maxHookClients   = 256
)

// NewHooks opens the listener, on a loopback address as the gateway's. The caller must call Run, or Close.
func NewHooks(listen string, log *slog.Logger) (*Hooks, error) {
	ln, err := listenLoopback(listen)
	if err != nil {
		return nil, fmt.Errorf("listen for webhooks: %w", err)
	}
	return &Hooks{listener: ln, log: log}, nil
}

// Addr is the address of the listener.
func (h *Hooks) Addr() net.Addr { return h.listener.Addr() }

// Close gives up the listener of Hooks that were never run.
func (h *Hooks) Close() error { return h.listener.Close() }

// Run serves until ctx ends, and returns when every connection is closed.
func (h *Hooks) Run(ctx context.Context, handler http.Handler) error {
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       hooksReadTimeout,
		WriteTimeout:      hooksTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return serving },
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() {
		failed <- h.Idle.serve(srv, &fewClients{Listener: h.listener, slots: make(chan struct{}, maxHookClients)})
	}()
	h.log.Info("webhooks are accepted", "addr", h.listener.Addr().String())
	var err error
	select {
	case err = <-failed:
		failed <- nil
	case <-ctx.Done():
	}
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer done()
	if srv.Shutdown(closing) != nil {
		cancel() // a request outlived the grace; cut it
		_ = srv.Close()
	}
	<-failed
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve webhooks: %w", err)
	}
	return nil
}

// fewClients is a listener that lets so many connections in at a time; further ones wait in the system's queue.
type fewClients struct {
	net.Listener
	slots chan struct{}
}

// Accept implements net.Listener.
func (l *fewClients) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.slots <- struct{}{}
	return &client{Conn: c, leave: sync.OnceFunc(func() { <-l.slots })}, nil
}

// client is a connection that gives back its place.
type client struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *client) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
