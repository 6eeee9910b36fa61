//go:build linux

package supervise

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// lowest is the priority of commands, as nice(1) counts. They share the container's part of the processor with us, and however
// many they are we must go on: to look at the disk, to end them, to answer. It says nothing about their share beside other
// containers, which the container's cgroup decides.
const lowest = 19

// starter starts processes on a thread of its own with the lowest priority, which they inherit. No thread that has given up
// its priority may take it back.
type starter chan func()

func newStarter() starter {
	s := make(starter)
	go func() {
		runtime.LockOSThread() // for ever; the runtime makes no threads from a locked one
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, lowest)
		for job := range s {
			job()
		}
	}()
	return s
}

// do runs job there.
func (s starter) do(job func()) {
	done := make(chan struct{})
	s <- func() { defer close(done); job() }
	<-done
}
