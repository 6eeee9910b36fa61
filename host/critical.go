package host

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// criticalPatience is how long critical channels may take to become ready at the start. A platform may be slow; a host that will never
// serve has to say so to whoever started it.
const criticalPatience = time.Minute

// awaitCritical ends the host when a critical channel does not become ready. Later, when one of them fails in operation, the host stays up, says
// that it is not ready, and supervision goes on.
func (h *Host) awaitCritical(ctx context.Context, patience time.Duration) error {
	waiting, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not ready within %v", patience))
	defer cancel()
	err := h.plugins.WaitCritical(waiting)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if waiting.Err() != nil {
		err = errors.Join(context.Cause(waiting), h.plugins.CriticalDown())
	}
	return fmt.Errorf("start: %w: mend it, or set critical = false in its [channels] table", err)
}
