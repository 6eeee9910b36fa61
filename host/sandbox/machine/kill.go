package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

// The rungs of the kill ladder, as Kill.Rung names them.
const (
	rungTerm  = "term"  // all went after SIGTERM to the group
	rungKill  = "kill"  // SIGKILL to the group was needed
	rungSweep = "sweep" // members outside the group had to be found one by one
)

// sweepTime bounds the search for what is left. A process that SIGKILL does not end within it is stuck in the
// kernel, and is reported as a survivor.
const sweepTime = 3 * time.Second

// kill ends the command: TERM to its group, then KILL, then a sweep of whatever left the group.
func (r *running) kill(grace time.Duration) *Kill {
	began := time.Now()
	r.signalGroup(unix.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	rung := rungTerm
	select {
	case <-r.exited:
	case <-timer.C:
		rung = rungKill
	}
	rung, survivors := r.end(rung)
	return &Kill{Rung: rung, Took: time.Since(began), Survivors: survivors}
}

// clear ends what a command left behind when it exited by itself; nil if there was nothing.
func (r *running) clear() *Kill {
	if len(r.members()) == 0 {
		return nil
	}
	began := time.Now()
	rung, survivors := r.end(rungKill)
	return &Kill{Rung: rung, Took: time.Since(began), Survivors: survivors}
}

// end kills the group and then every other member until none is left, and returns the highest rung that it took.
func (r *running) end(rung string) (string, int) {
	if rung == rungTerm && len(r.members()) > 0 {
		rung = rungKill
	}
	r.signalGroup(unix.SIGKILL)
	deadline := time.Now().Add(sweepTime)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		members := r.members()
		if len(members) == 0 {
			<-r.exited
			return rung, 0
		}
		if time.Now().After(deadline) {
			return rung, len(members)
		}
		if r.sweep(members) {
			rung = rungSweep
		}
		<-time.After(pause) // the kernel needs a moment to take a killed process down
	}
}

// signalGroup signals the command's process group. The unreaped leader keeps the group's id from being reused.
func (r *running) signalGroup(sig unix.Signal) {
	_ = unix.Kill(-r.cmd.Process.Pid, sig) // ESRCH: all gone
}
