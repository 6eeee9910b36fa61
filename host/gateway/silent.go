package gateway

import (
	"net"
	"net/http"
	"sync"
)

// silent holds the connections of a server on which no request has begun. Browsers open such connections in advance, and http.Server.Shutdown
// waits five seconds for each in case a request is on its way.
type silent struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	over  bool // new ones are closed at once
}

// closedAtShutdown has srv close its silent connections when it shuts down.
func closedAtShutdown(srv *http.Server) {
	s := &silent{conns: map[net.Conn]struct{}{}}
	srv.ConnState = s.changed
	srv.RegisterOnShutdown(s.close)
}

func (s *silent) changed(c net.Conn, to http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case to != http.StateNew:
		delete(s.conns, c)
	case s.over:
		_ = c.Close()
	default:
		s.conns[c] = struct{}{}
	}
}

func (s *silent) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for c := range s.conns {
		_ = c.Close()
	}
}
