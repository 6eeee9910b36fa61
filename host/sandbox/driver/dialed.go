package driver

import "context"

// Dialed is a Driver whose supervisors listen, instead of being attached to. Its Attach is never called.
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
const IdentityPath = "/.flynn-identity"
