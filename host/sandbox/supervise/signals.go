//go:build linux

package supervise

import (
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From firstRealTime on signals have no fixed meaning; the C runtime keeps the ones before it to itself.
const (
	firstRealTime = 34
	lastSignal    = 64
)

// dropHandlers gives up handlers of Go's runtime for signals that mean nothing to us. A child has to undo each of them
// before it may run a program, by a system call; and at the end of every child one would wake a thread, to look at
// SIGCHLD and forget it.
//
// Package signal can only ignore signals, which children would inherit. So this asks the kernel itself to do
// what it does by default, and to process 1 that is nothing.
func dropHandlers() {
	drop(unix.SIGCHLD)
	for n := syscall.Signal(firstRealTime); n <= lastSignal; n++ {
		drop(n)
	}
}

func drop(n syscall.Signal) {
	signal.Ignore(n)         // the runtime forgets its handler
	var byDefault [4]uintptr // struct sigaction with SIG_DFL
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
}
