package agent

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/turnlog"
)

// Halt stops every turn that runs, after the kill switch was thrown. What has not done anything yet begins anew after Resume.
func (r *Runner) Halt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.running {
		a.cancel(errHalted)
	}
	r.children.Stop(errHalted, func(turnlog.Turn) bool { return true })
}

// Resume lets work go on that waits for the kill switch.
func (r *Runner) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.wake)
	r.wake = make(chan struct{})
}

// awake waits for as long as the kill switch says, and is false when ctx ends first.
func (r *Runner) awake(ctx context.Context) bool {
	for {
		r.mu.Lock()
		wake := r.wake
		r.mu.Unlock()
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
