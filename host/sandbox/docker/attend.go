package docker

import (
	"context"
	"errors"
	"time"
)

// attention says how an engine is watched during a long call.
type attention struct {
	every    time.Duration // interval between checks
	patience time.Duration // how long the engine may give no sign of life
}

// errSilent ends a long call to an engine that hangs.
var errSilent = errors.New("no sign of life")

// attended ends a long call when the engine gives no sign of life; otherwise a caller would wait for a hung engine until the call's
// deadline. Pass the call's error through silence.
func (d *Driver) attended(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	if d.weakness.Trusting {
		return ctx, func() { end(nil) }
	}
	go func() {
		for alive := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(d.attention.every):
			}
			look, done := context.WithTimeout(ctx, d.attention.patience)
			_, err := d.api.Ping(look)
			done()
			switch {
			case err == nil:
				alive = time.Now()
			case time.Since(alive) >= d.attention.patience:
				end(errSilent)
				return
			}
		}
	}()
	return ctx, func() { end(nil) }
}

// silence returns errSilent for a call that failed because the engine gave no sign of life.
func silence(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) == errSilent {
		return errSilent
	}
	return err
}
