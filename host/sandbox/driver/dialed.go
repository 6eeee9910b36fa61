package driver

import (
	"context"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Dialed is a Driver whose supervisors listen. Attach is called for containers of the role Preparer only; the others run
// the program that program.FindSupervisorFor finds. That listens at DefaultAddress, unless the driver adds another one to a container's
// Entrypoint: host:port, or the path of a Unix socket.
type Dialed interface {
	// Endpoint returns where the supervisor of a started container listens. It may wait until that is known.
	Endpoint(ctx context.Context, id string) (Endpoint, error)
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
