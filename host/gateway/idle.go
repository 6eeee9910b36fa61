package gateway

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
)

// Idle closes the idle connections of several servers when file descriptors run short, so that new requests get them. The zero value is
// ready to use.
type Idle struct {
	mu      sync.Mutex
	servers []*http.Server
}

// serve is srv.Serve for a server whose idle connections may be closed.
func (i *Idle) serve(srv *http.Server, ln net.Listener) error {
	if i == nil {
		return srv.Serve(ln)
	}
	i.mu.Lock()
	i.servers = append(i.servers, srv)
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.servers = slices.DeleteFunc(i.servers, func(s *http.Server) bool { return s == srv })
	}()
	return srv.Serve(sparing{ln, i})
}

// drop closes the idle connections of all servers.
func (i *Idle) drop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, srv := range i.servers {
		srv.SetKeepAlivesEnabled(false)
		srv.SetKeepAlivesEnabled(true)
	}
}

// sparing is a listener that closes idle connections when the process has no descriptor or memory left to accept another one. The server
// tries again after a pause.
type sparing struct {
	net.Listener
	idle *Idle
}

// Accept implements net.Listener.
func (l sparing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, lack) {
			l.idle.drop()
			return nil, lacking{err}
		}
	}
	return c, err
}

// lacking is an error of Accept after which an http.Server pauses. Without it, the server would end for a lack of memory.
type lacking struct{ error }

// Temporary implements net.Error, as Timeout does.
func (lacking) Temporary() bool { return true }

// Timeout implements net.Error.
func (lacking) Timeout() bool { return false }

var _ net.Error = lacking{}
