package selftest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/docker"
)

// trouble is a way in which engines fail.
type trouble int

const (
	working  trouble = iota
	stopped          // nobody listens
	silent           // it accepts requests and answers none
	slow             // it answers after 30 s
	deaf             // it acts, and the connection breaks before the answer
	diskFull         // it has no space for another container
)

// slowness is how long a slow engine takes for any answer.
const slowness = 30 * time.Second

// middleman is a proxy between a driver and the owner's engine, which it does not disturb; to the driver the engine seems to be in trouble.
type middleman struct {
	network, path string
	dial          func(context.Context) (net.Conn, error)
	relay         *httputil.ReverseProxy

	mu      sync.Mutex
	trouble trouble
	over    chan struct{} // closed when the trouble ends
	hangUp  func()        // stops the server; nil while stopped
	served  sync.WaitGroup
}

// standBetween starts listening on a socket.
func standBetween(d *docker.Driver, path string) (*middleman, error) {
	upstream := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return d.Dial(ctx) },
		DisableKeepAlives: true, // so that none is left behind
	}
	m := &middleman{network: "unix", path: path, over: make(chan struct{})}
	m.relay = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "engine"}) },
		Transport: upstream, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	m.dial = func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, m.network, m.path)
	}
	return m, m.listen()
}

func (m *middleman) listen() error {
	listener, err := net.Listen(m.network, m.path)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: m, ReadHeaderTimeout: time.Minute}
	m.hangUp = func() {
		listener.Close() // the server may not have it yet
		server.Close()
	}
	m.served.Go(func() { _ = server.Serve(listener) }) // it always returns an error when it is closed
	return nil
}

// enter starts a kind of trouble, or ends it. Requests that hang in the previous trouble are cut off.
func (m *middleman) enter(t trouble) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.over)
	m.trouble, m.over = t, make(chan struct{})
	if m.hangUp != nil {
		m.hangUp()
		m.hangUp = nil
	}
	if t == stopped {
		return nil
	}
	return m.listen()
}

// ServeHTTP implements http.Handler.
func (m *middleman) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	trouble, over := m.trouble, m.over
	m.mu.Unlock()
	create := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/containers/create")
	switch {
	case trouble == silent:
		m.await(r, over, nil)
	case trouble == slow:
		m.await(r, over, time.After(slowness))
	case trouble == diskFull && create:
		http.Error(w, `{"message":"mkdir /var/lib/docker/overlay2/x: no space left on device"}`, http.StatusInternalServerError)
		return
	case trouble == deaf && create:
		m.relay.ServeHTTP(nobody{http.Header{}}, r)
		panic(http.ErrAbortHandler)
	}
	m.relay.ServeHTTP(w, r)
}

// await delays a request until a time, or breaks its connection.
func (m *middleman) await(r *http.Request, over <-chan struct{}, until <-chan time.Time) {
	select {
	case <-until:
	case <-over:
		panic(http.ErrAbortHandler)
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	}
}

func (m *middleman) close() error {
	if m == nil {
		return nil
	}
	err := m.enter(stopped)
	m.served.Wait()
	return err
}

// nobody discards an answer.
type nobody struct{ header http.Header }

func (n nobody) Header() http.Header         { return n.header }
func (n nobody) Write(p []byte) (int, error) { return len(p), nil }
func (n nobody) WriteHeader(int)             {}

var errOddTrouble = errors.New("the engine worked while it was in trouble")
