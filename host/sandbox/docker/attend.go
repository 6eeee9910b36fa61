package docker

import (
	"context"
	"errors"
	"time"
)

// attention says how an engine is watched during a long call.
type attention struct {
	every    time.Duration // between two looks
	patience time.Duration // for which it may give no sign of life at all
}

// errSilent ends what an engine was busy with when it hung.
var errSilent = errors.New("no sign of life")

// attended ends a long call when the engine gives no sign of life: otherwise a caller would wait for an engine that hangs until the call's
// deadline. The call's error has to go through silence.
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

// silence returns errSilent for a call that has failed because the engine gave no sign of life.
func silence(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) == errSilent {
		return errSilent
	}
	return err
}
