package host

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// killSwitch is the state of the kill switch. It is read between steps and before each tool call; what it says stands in the store,
// so that a restart changes nothing about it.
type killSwitch struct {
	store store.Halts
	mu    sync.Mutex // one change at a time
	now   atomic.Pointer[store.Halt]
}

// openKillSwitch reads how the switch was left. A host that cannot know does not start.
func openKillSwitch(ctx context.Context, s store.Halts) (*killSwitch, error) {
	h, err := s.Halt(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the kill switch: %w", err)
	}
	k := &killSwitch{store: s}
	k.now.Store(&h)
	return k, nil
}

// why is why nothing may run, or "".
func (k *killSwitch) why() string { return k.now.Load().String() }

// set commits a change, brings it into force and then calls then.
func (k *killSwitch) set(ctx context.Context, h store.Halt, then func()) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now.Load().On == h.On {
		return nil
	}
	if err := k.store.SetHalt(ctx, h); err != nil {
		return err
	}
	k.now.Store(&h)
	then()
	return nil
}

// maxHaltReason bounds what is kept of why, in bytes.
const maxHaltReason = 500

// halt throws the kill switch or takes it back.
func (h *Host) halt(ctx context.Context, on bool, reason, by string) error {
	then := h.runner.Resume
	if on {
		then = h.runner.Halt
	}
	err := h.kill.set(ctx, store.Halt{On: on, Reason: reason[:min(len(reason), maxHaltReason)], By: by, Since: time.Now().UTC()}, then)
	if err == nil {
		h.log.Warn("kill switch", "on", on, "by", by, "reason", reason)
	}
	return err
}
