package jail

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reach says which sockets a process may make. Whatever it says, none are raw, and none of any family that is not named here.
type reach struct {
	connect bool // to anything: without it the process may only be connected to
	stream  bool // TCP
	name    bool // UDP, in which names are asked for; and how the system routes, which resolvers ask for
}

// reach returns the sockets that the process may make. A process that names no host has no use for UDP, and one that is offered nothing none for connecting.
func (c Config) reach() reach {
	tcp := c.AnyPort || len(c.Ports) > 0
	return reach{connect: tcp || len(c.Sockets) > 0, stream: tcp, name: tcp && c.Names}
}

// nativeCalls are the numbers of a system's calls that the filter is about.
type nativeCalls struct{ arch, socket, connect, pair uint32 }

// ioURingSetup has one number everywhere.
const ioURingSetup = 425

// protoMPTCP is the protocol of sockets that Landlock does not look at.
const protoMPTCP = 262

func native() (nativeCalls, bool) {
	switch runtime.GOARCH {
	case "amd64":
		return nativeCalls{arch: unix.AUDIT_ARCH_X86_64, socket: 41, connect: 42, pair: 53}, true
	case "arm64":
		return nativeCalls{arch: unix.AUDIT_ARCH_AARCH64, socket: 198, connect: 203, pair: 199}, true
	}
	return nativeCalls{}, false
}

// Offsets in the kernel's struct seccomp_data (seccomp(2)); arguments are of 8 bytes, the low half first.
const (
	seccompNumber   = 0
	seccompArch     = 4
	seccompFamily   = 16         // first argument of socket and socketpair
	seccompType     = 16 + 1*8   // second
	seccompProtocol = 16 + 2*8   // third
	sockTypeMask    = 0xf        // the rest of a type are flags
	x32Calls        = 0x40000000 // numbers of another convention of amd64
)

// filterSockets allows what r says, and refuses every other socket, io_uring, which makes sockets that no filter of calls sees, and
// calls in another system's numbers. Multipath TCP, which Landlock does not look at, is among the refused; programs that try it, or
// io_uring, fall back to plain ones.
func filterSockets(r reach) error {
	n, ok := native()
	if !ok {
		return fmt.Errorf("filter the calls that make sockets: their numbers on %s are not known", runtime.GOARCH)
	}
	program := socketFilter(n, r)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return fmt.Errorf("filter the calls that make sockets: %w", err)
	}
	return r.try()
}

// socketFilter is the program of the filter: each rule looks at one call and ends with a verdict, or leaves it to the next.
func socketFilter(n nativeCalls, r reach) []unix.SockFilter {
	p := []unix.SockFilter{load(seccompArch), jump(unix.BPF_JEQ, n.arch, 1, 0), refuse(unix.ENOSYS), load(seccompNumber)}
	p = append(p, jump(unix.BPF_JGE, x32Calls, 1, 0), jump(unix.BPF_JEQ, ioURingSetup, 0, 1), refuse(unix.ENOSYS))
	if !r.connect {
		p = append(p, jump(unix.BPF_JEQ, n.connect, 0, 1), refuse(unix.EACCES))
	}
	p = append(p, jump(unix.BPF_JEQ, n.socket, 2, 0), jump(unix.BPF_JEQ, n.pair, 1, 0), allow())

	// Datagrams between processes of a machine have no peer, so that nobody could be kept from: only streams are left.
	p = append(p, family(unix.AF_UNIX, ofType(unix.SOCK_STREAM, allow())...)...)
	if r.stream {
		inet := ofProtocol(protoMPTCP, refuse(unix.EPROTONOSUPPORT))
		inet = append(inet, ofType(unix.SOCK_STREAM, ofProtocol(0, allow())...)...)
		inet = append(inet, ofType(unix.SOCK_STREAM, ofProtocol(unix.IPPROTO_TCP, allow())...)...)
		if r.name {
			inet = append(inet, ofType(unix.SOCK_DGRAM, ofProtocol(0, allow())...)...)
			inet = append(inet, ofType(unix.SOCK_DGRAM, ofProtocol(unix.IPPROTO_UDP, allow())...)...)
		}
		p = append(p, family(unix.AF_INET, inet...)...)
		p = append(p, family(unix.AF_INET6, inet...)...)
	}
	if r.name {
		p = append(p, family(unix.AF_NETLINK, ofProtocol(unix.NETLINK_ROUTE, allow())...)...)
	}
	return append(p, refuse(unix.EACCES))
}

// family runs the rules for sockets of one family.
func family(f uint32, rules ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{load(seccompFamily), jump(unix.BPF_JEQ, f, 0, uint8(len(rules)))}, rules...)
}

// ofType runs the rules for sockets of one type.
func ofType(t uint32, rules ...unix.SockFilter) []unix.SockFilter {
	mask := statement(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, sockTypeMask)
	return append([]unix.SockFilter{load(seccompType), mask, jump(unix.BPF_JEQ, t, 0, uint8(len(rules)))}, rules...)
}

// ofProtocol runs the rules for sockets of one protocol.
func ofProtocol(number uint32, rules ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{load(seccompProtocol), jump(unix.BPF_JEQ, number, 0, uint8(len(rules)))}, rules...)
}

func load(offset uint32) unix.SockFilter {
	return statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset)
}

func allow() unix.SockFilter { return statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW) }

func refuse(errno unix.Errno) unix.SockFilter {
	return statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(errno))
}

func statement(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func jump(how uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

// try makes the sockets that must not be.
func (r reach) try() error {
	for _, s := range []struct {
		name                   string
		family, kind, protocol int
		allowed                bool
	}{
		{"raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_UDP, false},
		{"Multipath TCP", unix.AF_INET, unix.SOCK_STREAM, protoMPTCP, false},
		{"UDP", unix.AF_INET, unix.SOCK_DGRAM, 0, r.name},
		{"TCP", unix.AF_INET, unix.SOCK_STREAM, 0, r.stream},
		{"unix datagram", unix.AF_UNIX, unix.SOCK_DGRAM, 0, false},
		{"packet", unix.AF_PACKET, unix.SOCK_DGRAM, 0, false},
	} {
		fd, err := unix.Socket(s.family, s.kind|unix.SOCK_CLOEXEC, s.protocol)
		if err != nil {
			continue
		}
		_ = unix.Close(fd)
		if !s.allowed {
			return fmt.Errorf("a %s socket can be made", s.name)
		}
	}
	// No descriptor is -1: the answer reports whether the kernel has looked at it.
	if err := unix.Connect(-1, &unix.SockaddrUnix{Name: "/"}); !r.connect && !errors.Is(err, unix.EACCES) {
		return errors.New("connections are not refused")
	}
	return nil
}
