package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// Hooks is the listener for the webhooks of platforms. It is separate from the gateway's, so that a proxy that is open to the internet
// cannot lead to the page and its API, however it is configured. It has no token and no guard; its handler must not rely on them.
type Hooks struct {
	listener net.Listener
	log      *slog.Logger
	// Idle may be set before Run.
	Idle *Idle
}

// Limits of the listener for webhooks. Its clients are proxies on this machine.
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

// Close closes the listener of Hooks that were never run. On nil it does nothing.
func (h *Hooks) Close() {
	if h != nil {
		h.listener.Close() // a second time it returns an error without meaning
	}
}

// Run serves until ctx ends, and returns when every connection is closed. On nil it returns at once.
func (h *Hooks) Run(ctx context.Context, handler http.Handler) error {
	if h == nil {
		return nil
	}
	h.log.Info("webhooks are accepted", "addr", h.listener.Addr().String())
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{Handler: handler, ReadTimeout: hooksReadTimeout, WriteTimeout: hooksTimeout}
	if err := serve(ctx, serving, cancel, srv, netutil.LimitListener(h.listener, maxHookClients), h.Idle, h.log); err != nil {
		return fmt.Errorf("serve webhooks: %w", err)
	}
	return nil
}
