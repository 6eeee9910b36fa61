//go:build linux

package supervise

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawSetgroups sets the supplementary groups of this thread alone; the wrapper in the syscall
// package sets those of every thread.
func rawSetgroups(groups *[1]uint32) error {
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(groups)), 0)
	if e != 0 {
		return e
	}
	return nil
}
