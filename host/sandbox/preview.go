package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// ErrNoLoopback is the error of Reachable for a sandbox in the network of the host.
var ErrNoLoopback = errors.New(`a sandbox with network = "host" has no loopback interface of its own: its ports are those of this machine`)

// Reachable returns nil if programs in the sandbox can be reached by Dial. In the network of the host a port could be any service of the
// host.
func (s *Session) Reachable() error {
	if s.spec.Network == "host" {
		return ErrNoLoopback
	}
	return nil
}

// Dial connects to a TCP port of the loopback interface inside, in the container that runs now; it creates none. The error is
// machine.ErrNotFound if nothing listens there, machine.ErrOutside for a port of Flynn's own. While the connection is open the container is
// in use.
func (s *Session) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if err := s.Reachable(); err != nil {
		return nil, err
	}
	c, release, err := s.rouse()
	if err != nil {
		return nil, errGone
	}
	conn, err := c.Link.Dial(ctx, port)
	if err != nil {
		release()
		return nil, err
	}
	return &counted{Conn: conn, release: sync.OnceFunc(release)}, nil
}

// Listening returns the TCP ports on which programs inside can be reached by Dial, lowest first, and whether there are more.
func (s *Session) Listening(ctx context.Context) (ports []uint16, more bool, err error) {
	if err := s.Reachable(); err != nil {
		return nil, false, err
	}
	c, release, err := s.rouse()
	if err != nil {
		return nil, false, errGone
	}
	defer release()
	return c.Link.Listening(ctx)
}

var errGone = fmt.Errorf("%w: the sandbox has ended", machine.ErrNotFound)

// counted is a connection that counts as a call of its container.
type counted struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.release()
	return c.Conn.Close()
}
