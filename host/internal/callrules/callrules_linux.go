// Package callrules has the instructions of seccomp filters, which decide about system calls; see seccomp(2). Start with Install.
package callrules

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in the kernel's struct seccomp_data.
const (
	Number = 0
	Arch   = 4
	// First, Second and Third are the low halves of arguments, which have 8 bytes.
	First, Second, Third = 16, 24, 32

	// X32 is where the numbers of another convention of amd64 begin.
	X32 = 0x40000000
)

// Load loads what is at an offset, for the instructions after it.
func Load(offset uint32) unix.SockFilter {
	return Statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset)
}

// Allow ends a filter: the call is made.
func Allow() unix.SockFilter { return Statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW) }

// Refuse ends a filter: the call fails.
func Refuse(errno unix.Errno) unix.SockFilter {
	return Statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(errno))
}

// Statement is any instruction but a jump.
func Statement(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

// Jump compares what is loaded with k, and skips that many instructions.
func Jump(how uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

// Install restricts this thread, and what it starts, for good.
func Install(filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("restrict system calls: %w", err)
	}
	return nil
}
