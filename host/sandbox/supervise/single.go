//go:build linux

package supervise

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A sandbox with a single user is that of a host whose user may use no other ids: the supervisor and the workload have the same one. Then
// three things are different. The supervisor protects itself: it handles no signal, so the kernel delivers none to process 1, and it has
// capabilities that the workload lacks, so the kernel lets no command look into it. A command's tag is its namespace of names (UTS), which
// only the supervisor can make and no process can leave. And no helper is needed to kill everything: a kill(-1) of process 1 hits only the
// workload.

// single reports whether this is such a sandbox.
var single = sync.OnceValue(func() bool { return os.Getpid() == 1 && os.Getuid() != 0 })

// keepToItself protects this process from the workload, in all of its threads. It has to be called before any command runs, and before
// dropHandlers: the runtime reaches its threads by a signal.
func keepToItself() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protect the supervisor: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("protect the supervisor: %w", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0 // commands would inherit them; without them the ambient set is empty, too
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0); e != 0 {
		return fmt.Errorf("protect the supervisor: %w", e)
	}
	for n := syscall.Signal(1); n < firstRealTime; n++ {
		if n != unix.SIGKILL && n != unix.SIGSTOP {
			drop(n)
		}
	}
	return nil
}

// newNames puts this thread, and what it starts, into a new namespace of names, and returns that.
func newNames() (int, error) {
	if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
		return 0, fmt.Errorf("mark a command: %w", err)
	}
	names := namesAt("/proc/thread-self")
	if names == 0 {
		return 0, fmt.Errorf("mark a command: its namespace cannot be read")
	}
	return names, nil
}

// ownNames returns the namespace of names of this process.
var ownNames = sync.OnceValue(func() int { return namesAt("/proc/self") })

// namesOf returns the namespace of a process, or 0 if it has ended. A process whose first thread has ended lives on in the others.
func namesOf(pid int) int {
	process := "/proc/" + strconv.Itoa(pid)
	if names := namesAt(process); names != 0 {
		return names
	}
	threads, err := os.ReadDir(process + "/task")
	if err != nil {
		return 0
	}
	for _, t := range threads {
		if names := namesAt(process + "/task/" + t.Name()); names != 0 {
			return names
		}
	}
	return 0
}

// namesAt returns the number of a namespace of names; 0 if there is none.
func namesAt(task string) int {
	var buf [64]byte
	n, err := unix.Readlink(task+"/ns/uts", buf[:])
	if err != nil || n < len("uts:[]") {
		return 0
	}
	names, err := strconv.Atoi(string(buf[len("uts:[") : n-1]))
	if err != nil {
		return 0
	}
	return names
}
