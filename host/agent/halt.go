package agent

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/turnlog"
)

// Halt stops every running turn after the kill switch was thrown. A turn that has not done anything yet begins again after Resume.
func (r *registry) Halt() {
	r.stopAll(errHalted, func(*active) bool { return true })
	r.children.Stop(errHalted, func(turnlog.Turn) bool { return true })
}

// Resume wakes the work that waits for the kill switch.
func (r *Runner) Resume() {
	r.waking.Lock()
	defer r.waking.Unlock()
	close(r.wake)
	r.wake = make(chan struct{})
}

// awake waits while the kill switch is on. It returns false if ctx ends first.
func (r *Runner) awake(ctx context.Context) bool {
	for {
		r.waking.Lock()
		wake := r.wake
		r.waking.Unlock()
		if r.cfg.Stopped() == "" {
			return true
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return false
		}
	}
}
