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

// Anywhere is the group of a process that stays in this one's control groups.
const Anywhere = -1

// Start forks with these flags of clone(2), calls child in the new process, and returns that process's id. If child returns, the process exits.
// group is a descriptor of a control group of version 2 in which the process starts, or Anywhere.
//
// child must be a function that is nosplit, as must be all that it calls: it makes raw system calls, and it allocates nothing, stores no
// pointer and does not panic. It starts with all signals blocked, and with copies of all descriptors. arg is passed to it.
func Start(flags uintptr, group int, child func(arg unsafe.Pointer), arg unsafe.Pointer) (pid int, err error) {
	args := &cloneArgs{flags: uint64(flags), signal: uint64(unix.SIGCHLD)}
	if group >= 0 {
		args.flags, args.cgroup = args.flags|unix.CLONE_INTO_CGROUP, uint64(group)
	}
	syscall.ForkLock.Lock() // no descriptor of another goroutine is half made
	p, errno := start(args, child, arg)
	syscall.ForkLock.Unlock()
	if errno != 0 {
		return 0, errno
	}
	return int(p), nil
}

// cloneArgs are the arguments of clone3(2).
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, signal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// start blocks signals, because a handler of the runtime in the new process, or a change of goroutines in this one, would be the end of it.
// Filters of system calls refuse clone3, which only a group needs.
//
//go:nosplit
//go:norace
//go:nocheckptr
func start(args *cloneArgs, child func(unsafe.Pointer), arg unsafe.Pointer) (pid uintptr, errno syscall.Errno) {
	all, before := ^uint64(0), uint64(0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&before)), 8, 0, 0)
	if args.flags&unix.CLONE_INTO_CGROUP != 0 {
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0, 0, 0, 0)
	} else {
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(args.flags|args.signal), 0, 0, 0, 0, 0)
	}
	if errno == 0 && pid == 0 {
		child(arg)
		for {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 1, 0, 0)
		}
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&before)), 0, 8, 0, 0)
	return pid, errno
}
