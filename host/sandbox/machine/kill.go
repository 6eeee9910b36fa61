package machine

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/internal/ps"
)

// The escalation steps, as Kill.Rung names them.
const (
	rungTerm  = "term"  // all processes ended after SIGTERM to the group
	rungKill  = "kill"  // SIGKILL to the group was needed
	rungSweep = "sweep" // processes outside of the group had to be found one by one
)

// sweepTime bounds the search for remaining processes. A process that survives SIGKILL for longer is stuck in the kernel and reported as a
// survivor.
const sweepTime = 3 * time.Second

// kill ends the command: SIGTERM to its group, then SIGKILL, then a sweep of processes that left the group.
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

// clear ends the processes that a command left when it exited by itself; it returns nil if there were none.
func (r *running) clear() *Kill {
	if len(r.members()) == 0 {
		return nil
	}
	began := time.Now()
	rung, survivors := r.end(rungKill)
	return &Kill{Rung: rung, Took: time.Since(began), Survivors: survivors}
}

// end kills the group and then every other member until none is left, and returns the highest step that it took.
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
		<-time.After(pause) // the kernel needs a moment to remove a killed process
	}
}

// sweep kills the members outside of the command's group, which was signalled already, and reports whether there were any.
func (r *running) sweep(members []member) bool {
	any := false
	for _, m := range members {
		if m.group != r.cmd.Process.Pid {
			any = true
			r.killOne(m.pid)
		}
	}
	return any
}

// killOne kills a process only if it certainly belongs to the command.
func (r *running) killOne(pid int) {
	ps.End(pid, func() bool {
		_, ours := r.inspect(pid)
		return ours
	})
}

// member is a live process of a command.
type member struct {
	pid   int
	group int
}

// hasMarker reports whether the environment of a process has the command's marker.
func (r *running) hasMarker(pid int) bool {
	return ps.HasVariable(pid, markerName+"="+r.marker)
}

// signalGroup signals the command's process group. The unreaped leader keeps the group's id from being reused.
func (r *running) signalGroup(sig unix.Signal) {
	_ = unix.Kill(-r.cmd.Process.Pid, sig) // ESRCH: all gone
}

// members returns the processes of the command that live.
func (r *running) members() []member { return r.found.members(r) }
