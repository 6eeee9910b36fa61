//go:build linux

package supervise

import (
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Signals from firstRealTime on have no fixed meaning; the C runtime reserves the ones before it.
const (
	firstRealTime = 34
	lastSignal    = 64
)

// dropHandlers removes the handlers of Go's runtime for signals that we do not use. Otherwise a child has to reset each of them by a system
// call before it can run a program; and the end of every child wakes a thread for SIGCHLD.
//
// Package signal can only ignore signals, which children would inherit. This function sets the kernel's default action instead, which for
// process 1 is to do nothing.
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
