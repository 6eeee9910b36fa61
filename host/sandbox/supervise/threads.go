//go:build linux

package supervise

import (
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// spareThreads is more than this package ever blocks in system calls at once: one reader, one
// writer, the reaper, the file threads, the starter, one scan, the short commands, the transfers, and the runtime's own.
const spareThreads = 20

// warmThreads makes the runtime create n threads now. It keeps them for ever and so never needs a
// new one later, when the pids limit may refuse it; a Go program dies of such a refusal.
func warmThreads(n int) {
	var arrived, done sync.WaitGroup
	release := make(chan struct{})
	for range n {
		arrived.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			arrived.Done()
			<-release
		}()
	}
	arrived.Wait()
	close(release)
	done.Wait()
}

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

// The timer slack of a thread is how late the kernel may wake it, in nanoseconds; see PR_SET_TIMERSLACK(2const).
const (
	usualSlack = 50_000 // the kernel's default, which commands get
	ownSlack   = 1_000_000
)

// relax lets all threads of this program sleep up to a millisecond longer than they ask for. Go's runtime has one that looks
// at the others every 20 µs as long as anything goes on, which takes a tenth of all that a short command costs; and nothing of
// ours is in such a hurry. A thread inherits its slack from the thread that makes it, and that one is made before any of our
// code runs: so the program begins anew, with the same process id.
func relax() {
	if slack() != usualSlack || unix.Prctl(unix.PR_SET_TIMERSLACK, ownSlack, 0, 0, 0) != nil {
		return
	}
	if program, err := os.Executable(); err == nil {
		_ = unix.Exec(program, os.Args, os.Environ()) // a failure is no loss but of time
	}
}

// slack is this thread's, or -1 where the kernel knows none.
func slack() int {
	n, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return -1
	}
	return n
}

// unrelaxed runs do, which starts a process, on a thread with the usual slack: the process inherits it.
func unrelaxed(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slack() == ownSlack {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, usualSlack, 0, 0, 0)
	}
	do()
}
