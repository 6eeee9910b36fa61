package host

import (
	"context"

	"github.com/flynnhost/flynn/host/admin/restart"
	"github.com/flynnhost/flynn/host/store"
)

// Serve runs a host until ctx ends, and another one in its place for each restart that a person asks for; it calls started with each.
func Serve(ctx context.Context, c Config, started func(*Host)) error {
	return restart.Serve(ctx, c.Path, c.Log, func(ctx context.Context, s restart.Start) (restart.Host, error) {
		c.start, c.restarts = s, make(chan *restart.Plan, 1)
		h, err := New(ctx, c)
		if err == nil {
			started(h)
		}
		return h, err
	})
}

// Next implements restart.Host.
func (h *Host) Next() *restart.Plan { return h.next }

// restart has Serve put another host in the place of this one. edited and before are the texts of the file if an edit takes the restart.
func (h *Host) restart(edited, before []byte) error {
	if h.restarts == nil {
		return store.Conflict("this flynn belongs to a command that runs once: it does not restart")
	}
	select {
	case h.restarts <- &restart.Plan{Edited: edited, Before: before, InForce: h.current.Config()}:
		return nil
	default:
		return store.Conflict("flynn restarts already")
	}
}
