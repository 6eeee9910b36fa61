package gateway

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"
)

// TestASilentConnectionDelaysNoShutdown: a server with a connection that never asked ends without using up the grace of its requests.
func TestASilentConnectionDelaysNoShutdown(t *testing.T) {
	for range 20 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		cut, over := false, make(chan error, 1)
		go func() {
			over <- serve(ctx, t.Context(), func() { cut = true }, &http.Server{}, ln, nil, slog.New(slog.DiscardHandler))
		}()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		stop()
		if err := <-over; err != nil || cut {
			t.Fatalf("cut off: %v, error %v", cut, err)
		}
		_ = c.Close()
	}
}
