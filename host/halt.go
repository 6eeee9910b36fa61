package host

import (
	"context"

	"github.com/flynnhost/flynn/host/gateway"
)

// Halt implements gateway.Halter.
func (b backend) Halt(ctx context.Context, on bool, reason, by string) error {
	return b.h.kill.Set(ctx, on, reason, by)
}

var _ gateway.Halter = backend{}

// haltStatus is nil while everything may run.
func (h *Host) haltStatus() *gateway.HaltStatus {
	k := h.kill.State()
	if !k.On {
		return nil
	}
	return &gateway.HaltStatus{Reason: k.Reason, By: k.By, Since: k.Since}
}
