package backend

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/halt"
	"github.com/flynnhost/flynn/host/gateway"
)

// Halt is the kill switch.
type Halt struct{ *halt.Switch }

var _ gateway.Halter = Halt{}

// Halt implements gateway.Halter.
func (h Halt) Halt(ctx context.Context, on bool, reason, by string) error {
	return h.Set(ctx, on, reason, by)
}
