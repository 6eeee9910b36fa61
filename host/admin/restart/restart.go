// Package restart runs one host after another in the same process, for a configuration that takes a restart.
//
// Start with Serve. A configuration with which a host does not start ends nothing: the text before the edit is brought back, and if that does
// not help the next host goes on with what was in force. The package does not know what a host is made of.
package restart

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/store"
)

// Plan is what a host leaves to the one that takes its place.
type Plan struct {
	// Edited and Before are the texts of the file after and before the edit that takes the restart; nil without one.
	Edited, Before []byte
	InForce        *config.Config // until then
}

// Start says how a host starts.
type Start struct {
	// Failed is why a host did not start with the file after a restart.
	Failed error
	// Config is what it starts with in place of the file, unless it is nil.
	Config *config.Config
}

// Open returns a holder of the configuration that a host starts with; usual is that of the file.
func (s Start) Open(usual config.Open) config.Open {
	if s.Config == nil {
		return usual
	}
	return config.FallBack(s.Config, s.Failed)
}

// Host is a host that has started.
type Host interface {
	Run(ctx context.Context) error
	// Next returns the plan of the restart with which Run has ended, or nil.
	Next() *Plan
}

// Serve runs hosts until ctx ends. path is that of the file.
func Serve(ctx context.Context, path string, log *slog.Logger, start func(context.Context, Start) (Host, error)) error {
	h, err := start(ctx, Start{})
	for err == nil {
		err = h.Run(ctx)
		next := h.Next()
		if next == nil && errors.Is(err, store.ErrFailedOver) { // it has to forget what it has in memory
			next = &Plan{}
		}
		if next == nil || ctx.Err() != nil {
			return err
		}
		if err != nil {
			log.Error("flynn restarts after an error", "error", err)
		}
		h, err = again(ctx, path, log, start, *next)
	}
	return err
}

// again starts the host that takes the place of the one before.
func again(ctx context.Context, path string, log *slog.Logger, start func(context.Context, Start) (Host, error), p Plan) (Host, error) {
	h, failed := start(ctx, Start{})
	if failed == nil || ctx.Err() != nil {
		return h, failed
	}
	if p.Edited != nil {
		log.Error("flynn does not start with the edited configuration: the text before is brought back", "path", path, "error", failed)
		kept := config.HistoryOf(p.InForce).Keep(p.Edited, true)
		if err := errors.Join(kept, edit.BringBack(ctx, path, p.Edited, p.Before)); err != nil {
			log.Error("cannot bring back the text before", "path", path, "error", err)
		}
		if h, err := start(ctx, Start{Failed: failed}); err == nil {
			return h, nil
		}
	}
	log.Error("flynn does not start with the file: it goes on with the configuration that was in force", "path", path, "error", failed)
	h, err := start(ctx, Start{Failed: failed, Config: p.InForce})
	if err != nil {
		return nil, fmt.Errorf("%w; and not with the configuration that was in force either: %w", failed, err)
	}
	return h, nil
}
