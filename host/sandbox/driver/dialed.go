package driver

import (
	"context"
	"net"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Dialed is a Driver whose supervisors listen. Attach is called for containers of the role Preparer only; the others run
// the program that program.FindSupervisorFor finds. That listens at DefaultAddress, unless the driver adds another one to a container's
// Entrypoint: host:port, or the path of a Unix socket.
type Dialed interface {
	// Endpoint returns where the supervisor of a started container listens. It may wait until that is known.
	Endpoint(ctx context.Context, id string) (Endpoint, error)
}

// Dialer is a Dialed whose endpoints only the engine reaches: it connects to them itself.
type Dialer interface {
	DialSupervisor(ctx context.Context, id string) (net.Conn, error)
}

// Disks reports whether the workspace of a container is a disk of its own, so that a host that reaches the container has all of it. Otherwise it is
// a folder of this machine, or a volume that belongs to this host.
func Disks(d Driver) bool {
	_, dialed := d.(Dialed)
	return Copies(d) || dialed && !d.Binds()
}

// Endpoint is the address of a supervisor.
type Endpoint struct {
	Network string // "unix" or "tcp"
	Address string
}

// IdentityPath is where a Dialed driver puts a Container's Identity, readable by root only.
const IdentityPath = frame.IdentityPath

// DefaultAddress is where a supervisor listens.
const DefaultAddress = frame.DefaultAddress
