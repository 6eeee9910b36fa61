// Package rawfork starts a process that runs a function of this program, without executing one.
//
// Such a process is a copy of the calling thread only: it has Go's memory but not its runtime. Package syscall works in the same way between
// fork and exec, and so do its rules apply; see Start.
package rawfork

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Start forks with these flags of clone(2), calls child in the new process, and returns that process's id. If child returns, the process exits.
//
// child must be a function that is nosplit, as must be all that it calls: it makes raw system calls, and it allocates nothing, stores no
// pointer and does not panic. It starts with all signals blocked, and with copies of all descriptors. arg is passed to it.
func Start(flags uintptr, child func(arg unsafe.Pointer), arg unsafe.Pointer) (pid int, err error) {
	syscall.ForkLock.Lock() // no descriptor of another goroutine is half made
	p, errno := start(flags|uintptr(unix.SIGCHLD), child, arg)
	syscall.ForkLock.Unlock()
	if errno != 0 {
		return 0, errno
	}
	return int(p), nil
}

// start blocks signals, because a handler of the runtime in the new process, or a change of goroutines in this one, would be the end of it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func start(flags uintptr, child func(unsafe.Pointer), arg unsafe.Pointer) (uintptr, syscall.Errno) {
	all, before := ^uint64(0), uint64(0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&before)), 8, 0, 0)
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		child(arg)
		for {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 1, 0, 0)
		}
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&before)), 0, 8, 0, 0)
	return pid, errno
}
