//go:build linux

package supervise

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// The timer slack of a thread is how late the kernel may wake it, in nanoseconds; see PR_SET_TIMERSLACK(2const).
const (
	usualSlack = 50_000 // the kernel's default, which commands get
	ownSlack   = 1_000_000
)

// relax lets all threads of this program sleep up to a millisecond longer than they ask for. Go's runtime has one that looks
// at the others every 20 µs as long as anything goes on, which takes a tenth of all that a brief command costs; and nothing of
// ours is in such a hurry. A thread inherits its slack from who makes it, and that one is made before any of our
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
