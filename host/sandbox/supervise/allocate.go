//go:build linux

package supervise

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is a system call of one of the kernel's ABIs.
type call struct{ arch, number uint32 }

// allocations returns fallocate(2) in all ABIs of this machine. The third one of amd64 is that of x32.
func allocations() []call {
	switch runtime.GOARCH {
	case "amd64":
		const x32 = 0x40000000
		return []call{{unix.AUDIT_ARCH_X86_64, 285}, {unix.AUDIT_ARCH_I386, 324}, {unix.AUDIT_ARCH_X86_64, 285 | x32}}
	case "arm64":
		return []call{{unix.AUDIT_ARCH_AARCH64, 47}, {unix.AUDIT_ARCH_ARM, 352}}
	}
	return nil
}

// refuseAllocation makes the kernel reject fallocate(2), except for freeing space, as a file system without support for it does. A single
// call could take the whole disk in an instant, even beyond the limit for one file. Commands then have to write to take disk space, which
// is slow enough to be checked. It holds for all threads and what they start. If the kernel has no seccomp filters it does nothing.
func refuseAllocation() {
	const (
		archAt, numberAt, modeAt = 4, 0, 24 // in struct seccomp_data; both architectures are little-endian
		equal                    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		load                     = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		answer                   = unix.BPF_RET | unix.BPF_K
	)
	var filter []unix.SockFilter
	for _, c := range allocations() {
		filter = append(filter,
			unix.SockFilter{Code: load, K: archAt},
			unix.SockFilter{Code: equal, K: c.arch, Jf: 5},
			unix.SockFilter{Code: load, K: numberAt},
			unix.SockFilter{Code: equal, K: c.number, Jf: 3},
			unix.SockFilter{Code: load, K: modeAt},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.FALLOC_FL_PUNCH_HOLE, Jt: 1},
			unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)},
		)
	}
	if len(filter) == 0 {
		return
	}
	filter = append(filter, unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, _ = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
}
