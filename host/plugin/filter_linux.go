package plugin

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nativeCalls are the numbers of a system's calls that the filter is about.
type nativeCalls struct{ arch, socket uint32 }

// ioURingSetup has one number everywhere.
const ioURingSetup = 425

// protoMPTCP is the protocol of sockets that Landlock does not look at.
const protoMPTCP = 262

func native() (nativeCalls, bool) {
	switch runtime.GOARCH {
	case "amd64":
		return nativeCalls{arch: unix.AUDIT_ARCH_X86_64, socket: 41}, true
	case "arm64":
		return nativeCalls{arch: unix.AUDIT_ARCH_AARCH64, socket: 198}, true
	}
	return nativeCalls{}, false
}

// Offsets in the kernel's struct seccomp_data (seccomp(2)); arguments are of 8 bytes, the low half first.
const (
	seccompNumber   = 0
	seccompArch     = 4
	seccompProtocol = 16 + 2*8 // third argument of socket
)

// filterSockets closes the ways around Landlock's view of TCP: Multipath TCP, io_uring, which makes sockets that no filter of calls sees,
// and calls in another system's numbers. Programs that try the first two fall back to plain ones.
func filterSockets() error {
	n, ok := native()
	if !ok {
		return fmt.Errorf("cut down Multipath TCP: not known how on %s", runtime.GOARCH)
	}
	deny := func(errno unix.Errno) unix.SockFilter {
		return statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(errno))
	}
	load := func(offset uint32) unix.SockFilter { return statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }
	allow := statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)
	program := []unix.SockFilter{
		load(seccompArch),
		jump(unix.BPF_JEQ, n.arch, 1, 0),
		deny(unix.ENOSYS),
		load(seccompNumber),
		jump(unix.BPF_JGE, 0x40000000, 1, 0), // x32
		jump(unix.BPF_JEQ, ioURingSetup, 0, 1),
		deny(unix.ENOSYS),
		jump(unix.BPF_JEQ, n.socket, 1, 0),
		allow,
		load(seccompProtocol),
		jump(unix.BPF_JEQ, protoMPTCP, 0, 1),
		deny(unix.EPROTONOSUPPORT),
		allow,
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return fmt.Errorf("filter the calls that make sockets: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, protoMPTCP)
	if err == nil {
		_ = unix.Close(fd)
		return errors.New("a socket of Multipath TCP can be made")
	}
	return nil
}

func statement(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func jump(how uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, Jt: yes, Jf: no, K: k}
}
