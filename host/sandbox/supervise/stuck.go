//go:build linux

package supervise

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// A new process becomes the workload's user before it executes its program, and in between other processes of that user may stop it. Until
// it executes its program, however, the thread that has forked it waits in the kernel (vfork(2)), and with it everything that needs the
// spawner, including the kill ladder. A process that takes too long is therefore inspected, and killed if it is stopped.
const (
	stuckAfter = 20 * time.Millisecond
	stuckPause = 5 * time.Millisecond
)

var errStopped = fail(frame.Internal,
	"start process: another one of the sandbox has stopped it before it ran its program; end background processes first")

// unstuck calls fork, which starts a process with such a tag, and reports whether that process had to be killed for fork to return.
func (s *spawner) unstuck(tag int, fork func()) (killed bool) {
	var over atomic.Bool
	watched := make(chan struct{})
	watch := time.AfterFunc(stuckAfter, func() {
		defer close(watched)
		for !over.Load() {
			killed = s.killStopped(tag) || killed
			time.Sleep(stuckPause)
		}
	})
	fork()
	over.Store(true)
	if !watch.Stop() {
		<-watched
	}
	return killed
}

// killStopped kills stopped processes with such a tag. It uses its own scanner, because the holder of the other one may be waiting for the
// spawner.
func (s *spawner) killStopped(tag int) (any bool) {
	for _, p := range s.scanner.find(tagIs(tag)) {
		if p.stopped {
			any = syscall.Kill(p.pid, syscall.SIGKILL) == nil
		}
	}
	return any
}

// spareProcessor makes sure that something can run while one thread waits in a fork, because the runtime counts that thread as running.
func spareProcessor() {
	const least = 2
	if runtime.GOMAXPROCS(0) < least {
		runtime.GOMAXPROCS(least)
	}
}
