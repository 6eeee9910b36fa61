package service

import (
	"net"
	"sync"

	"github.com/flynnhost/flynn/host/internal/peercred"
)

// Bounds of connections to the socket.
const (
	maxConnections = 512
	maxPerProcess  = 16
)

// limited is a listener that closes connections beyond the bounds at once, so that one plugin with many connections does not keep the
// others out.
type limited struct {
	net.Listener

	mu    sync.Mutex
	all   int
	peers map[int]int // connections by process id; 0 if it is unknown
}

func bounded(l net.Listener) net.Listener { return &limited{Listener: l, peers: map[int]int{}} }

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		pid, _ := peercred.PID(c) // 0: unknown
		if l.enter(pid) {
			return &counted{Conn: c, leave: sync.OnceFunc(func() { l.leave(pid) })}, nil
		}
		_ = c.Close()
	}
}

func (l *limited) enter(pid int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= maxConnections || pid != 0 && l.peers[pid] >= maxPerProcess {
		return false
	}
	l.all++
	l.peers[pid]++
	return true
}

func (l *limited) leave(pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.peers[pid]--; l.peers[pid] == 0 {
		delete(l.peers, pid)
	}
}

// counted is a connection that leaves the count when it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}
