//go:build darwin

package ps

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// zombie is SZOMB of sys/proc.h.
const zombie = 5

// Own returns the live processes that this user may kill. One that starts meanwhile may be missing.
func Own() ([]Process, error) {
	list, of := "kern.proc.uid", []int{os.Geteuid()}
	if of[0] == 0 {
		list, of = "kern.proc.all", nil
	}
	all, err := unix.SysctlKinfoProcSlice(list, of...)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []Process
	for i := range all {
		if p, ok := live(&all[i]); ok {
			found = append(found, p)
		}
	}
	return found, nil
}

// live converts the record of a process that has not ended.
func live(k *unix.KinfoProc) (Process, bool) {
	pid := int(k.Proc.P_pid)
	session, err := unix.Getsid(pid)
	if err != nil || k.Proc.P_stat == zombie {
		return Process{}, false
	}
	return Process{PID: pid, Parent: int(k.Eproc.Ppid), Group: int(k.Eproc.Pgid), Session: session, Started: k.Proc.P_starttime.Nano()}, true
}

// Environ returns the environment with which a process was executed; nil if it has ended or may not be read. Of programs that System
// Integrity Protection covers, such as those in /bin, nothing may be read.
func Environ(pid int) [][]byte {
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return nil
	}
	return parseArguments(raw)
}

// End kills a process if recognised returns true for it, and reports whether it did. Pids are assigned in rising order, so that of a process
// that ends between the two steps is not in use again yet.
func End(pid int, recognised func() bool) bool {
	return recognised() && unix.Kill(pid, unix.SIGKILL) == nil
}

// AwaitExit returns when a child has ended and before it is reaped: until then no other process can have its pid or group id. It uses a
// kernel queue because waitid also returns when the child is stopped; see golang.org/issue/19314.
func AwaitExit(pid int) error {
	queue, err := unix.Kqueue()
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", pid, err)
	}
	defer unix.Close(queue)
	unix.CloseOnExec(queue)
	var watch [1]unix.Kevent_t
	unix.SetKevent(&watch[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	watch[0].Fflags = unix.NOTE_EXIT
	for {
		n, err := unix.Kevent(queue, watch[:], watch[:], nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ESRCH): // it ended before it could be watched
			return nil
		case err != nil:
			return fmt.Errorf("wait for process %d: %w", pid, err)
		case n == 1 && watch[0].Flags&unix.EV_ERROR == 0:
			return nil
		case n == 1 && watch[0].Data != int64(unix.ESRCH):
			return fmt.Errorf("wait for process %d: %w", pid, unix.Errno(watch[0].Data))
		case n == 1:
			return nil
		}
	}
}
