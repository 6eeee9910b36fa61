package agent

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/turnlog"
)

// Halt stops every turn that runs, after the kill switch was thrown. What has not done anything yet begins anew after Resume.
func (r *registry) Halt() {
	r.stopAll(errHalted, func(*active) bool { return true })
	r.children.Stop(errHalted, func(turnlog.Turn) bool { return true })
}

// Resume lets work go on that waits for the kill switch.
func (r *Runner) Resume() {
	r.waking.Lock()
	defer r.waking.Unlock()
	close(r.wake)
	r.wake = make(chan struct{})
}

// awake waits for as long as the kill switch says, and is false when ctx ends first.
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
