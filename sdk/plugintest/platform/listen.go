package platform

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Serve serves HTTP on loopback until the end of the test, when it breaks the connections that are still open.
func Serve(t TB, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections() // a long poll would delay Close
		s.Close()
	})
	return s
}

// Post posts a body and returns the status of the answer, or 0 if there is none.
func Post(ctx context.Context, c *http.Client, url string, header http.Header, body []byte) (status int) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	r.Header = header
	answer, err := c.Do(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body) // so that the connection can be reused
	return answer.StatusCode
}

// Listener listens on loopback and keeps track of its connections, to break them.
type Listener struct {
	net.Listener
	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
}

// Listen returns a listener, which is closed at the end of the test.
func Listen(t TB) *Listener {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	l := &Listener{Listener: inner, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	l.conns[c] = true
	return c, nil
}

// Drop breaks every connection.
func (l *Listener) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

// Close implements net.Listener: it ends the connections as well.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	err := l.Listener.Close()
	l.Drop()
	return err
}
