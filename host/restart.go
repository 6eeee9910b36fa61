package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/store"
)

// restart is what a host leaves to the one that takes its place.
type restart struct {
	// edited and before are the texts of the file after and before the edit that takes the restart; nil without one.
	edited, before []byte
	inForce        *config.Config // until then
}

// Serve runs a host until ctx ends, and another one in its place for each restart that a person asks for; it calls started with each. A
// configuration with which the next one does not start ends nothing: the text before the edit is brought back, and if that does not help the
// next one goes on with what was in force.
func Serve(ctx context.Context, c Config, started func(*Host)) error {
	c.serves = true
	h, err := New(ctx, c)
	for err == nil {
		started(h)
		err = h.Run(ctx)
		if h.next == nil || ctx.Err() != nil {
			return err
		}
		if err != nil {
			c.Log.Error("flynn restarts after an error", "error", err)
		}
		h, err = again(ctx, c, h.next)
	}
	return err
}

// again returns the host that takes the place of the one before.
func again(ctx context.Context, c Config, r *restart) (*Host, error) {
	h, err := New(ctx, c)
	if err == nil || ctx.Err() != nil {
		return h, err
	}
	c.failed = err
	if r.edited != nil {
		c.Log.Error("flynn does not start with the edited configuration: the text before is brought back", "path", c.Path, "error", err)
		kept := config.HistoryOf(r.inForce).Keep(r.edited, true)
		if err := errors.Join(kept, edit.BringBack(ctx, c.Path, r.edited, r.before)); err != nil {
			c.Log.Error("cannot bring back the text before", "path", c.Path, "error", err)
		}
		if h, err := New(ctx, c); err == nil {
			return h, nil
		}
	}
	c.Log.Error("flynn does not start with the file: it goes on with the configuration that was in force", "path", c.Path, "error", c.failed)
	c.fallBack = r.inForce
	if h, err = New(ctx, c); err != nil {
		return nil, fmt.Errorf("%w; and not with the configuration that was in force either: %w", c.failed, err)
	}
	return h, nil
}

// restart has Serve put another host in the place of this one. edited and before are the texts of the file if an edit takes the restart.
func (h *Host) restart(edited, before []byte) error {
	if !h.serves {
		return store.Conflict("this flynn belongs to a command that runs once: it does not restart")
	}
	select {
	case h.restarts <- &restart{edited, before, h.current.Config()}:
		return nil
	default:
		return store.Conflict("flynn restarts already")
	}
}
