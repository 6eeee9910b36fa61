//go:build linux

package supervise

import (
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/callfilter"
)

// spareThreads is more than the number of threads that this package ever blocks in system calls at once: one reader, one writer, the
// reaper, the file threads, the starter, one scan, the short commands, the transfers, and the runtime's own.
const spareThreads = 20

// warmThreads makes the runtime create n threads in advance, and closes the channel that it returns once it has. It keeps them for ever, so it
// never needs a new one later, when the process limit may refuse it; a Go program crashes when that happens.
func warmThreads(n int) (warm <-chan struct{}) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		var arrived, done sync.WaitGroup
		release := make(chan struct{})
		for range n {
			arrived.Add(1)
			done.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				arrived.Done()
				<-release
			})
		}
		arrived.Wait()
		close(release)
		done.Wait()
	}()
	return over
}

// lowest is the nice value of commands. They share the container's CPU time with us, and however many they are we must be able to run: to
// scan the disk, to end them, to answer. It does not affect their share relative to other containers, which the container's cgroup decides.
const lowest = 19

// starter starts processes from a thread with the lowest priority, which they inherit. A thread that has lowered its priority may not raise
// it again.
type starter chan func()

func newStarter(w wall) starter {
	s := make(starter)
	go s.run(w, func() {})
	return s
}

// run does the jobs. It calls chosen once it has a thread, which is not the first one: in /proc that stands for the whole process.
func (s starter) run(w wall, chosen func()) {
	runtime.LockOSThread() // for ever; the runtime creates no threads from a locked one
	if unix.Gettid() == os.Getpid() {
		other := make(chan struct{})
		go s.run(w, func() { close(other) })
		<-other
		runtime.UnlockOSThread()
		return
	}
	chosen()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, lowest)
	if single() {
		if err := callfilter.SpareFirst(); err != nil {
			panic(err) // no command can run unprotected
		}
	}
	if err := w.enclose(); err != nil {
		panic(err)
	}
	for job := range s {
		job()
	}
}

// do runs job on the starter's thread.
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

// relax lets all threads of this program sleep up to a millisecond longer than they request. A thread of Go's runtime checks the others
// every 20 µs while anything is running, which takes a tenth of the cost of a short command; and nothing that we do is that urgent. A
// thread inherits its slack from the thread that creates it, and that one is created before any of our code runs, so the program executes
// itself again, with the same process id.
func relax() {
	if slack() != usualSlack || unix.Prctl(unix.PR_SET_TIMERSLACK, ownSlack, 0, 0, 0) != nil {
		return
	}
	if program, err := os.Executable(); err == nil {
		_ = unix.Exec(program, os.Args, os.Environ()) // a failure only costs time
	}
}

// slack returns the slack of this thread, or -1 if the kernel does not support it.
func slack() int {
	n, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return -1
	}
	return n
}

// unrelaxed runs do, which starts a process, on a thread with the usual slack, so that the process inherits that.
func unrelaxed(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slack() == ownSlack {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, usualSlack, 0, 0, 0)
	}
	do()
}
