package jail

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/internal/callrules"
)

// reach says which sockets a process may make. Raw sockets and other families are never allowed.
type reach struct {
	connect bool // at all: without it the process can only accept connections
	stream  bool // TCP
	name    bool // UDP for name lookups, and netlink routes, which resolvers read
}

// reach returns the sockets that the process may make. Without host names it does not need UDP, and without any destination it does not
// need to connect.
func (c Config) reach() reach {
	tcp := c.AnyPort || len(c.Ports) > 0
	return reach{connect: tcp || len(c.Sockets) > 0, stream: tcp, name: tcp && c.Names}
}

// nativeCalls are the system call numbers of an architecture that the filter checks.
type nativeCalls struct{ arch, socket, connect, pair uint32 }

// ioURingSetup has the same number on all architectures.
const ioURingSetup = 425

// protoMPTCP is a protocol that Landlock does not restrict.
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

// sockTypeMask leaves out the flags of a type.
const sockTypeMask = 0xf

// filterSockets allows the sockets of r, and refuses every other socket, io_uring, which makes sockets that no seccomp filter sees, and
// calls with the numbers of another architecture. Multipath TCP, which Landlock does not restrict, is refused as well; programs that try
// it, or io_uring, fall back to the usual calls.
func filterSockets(r reach) error {
	n, ok := native()
	if !ok {
		return fmt.Errorf("filter the calls that make sockets: their numbers on %s are not known", runtime.GOARCH)
	}
	if err := callrules.Install(socketFilter(n, r)); err != nil {
		return fmt.Errorf("filter the calls that make sockets: %w", err)
	}
	return r.try()
}

// socketFilter is the BPF program: each rule decides about a call, or leaves it to the next.
func socketFilter(n nativeCalls, r reach) []unix.SockFilter {
	p := []unix.SockFilter{callrules.Load(callrules.Arch), callrules.Jump(unix.BPF_JEQ, n.arch, 1, 0), callrules.Refuse(unix.ENOSYS), callrules.Load(callrules.Number)}
	p = append(p, callrules.Jump(unix.BPF_JGE, callrules.X32, 1, 0), callrules.Jump(unix.BPF_JEQ, ioURingSetup, 0, 1), callrules.Refuse(unix.ENOSYS))
	if !r.connect {
		p = append(p, callrules.Jump(unix.BPF_JEQ, n.connect, 0, 1), callrules.Refuse(unix.EACCES))
	}
	p = append(p, callrules.Jump(unix.BPF_JEQ, n.socket, 2, 0), callrules.Jump(unix.BPF_JEQ, n.pair, 1, 0), callrules.Allow())

	// Unix datagrams need no connection, so connect could not restrict them: only streams are allowed.
	p = append(p, family(unix.AF_UNIX, ofType(unix.SOCK_STREAM, callrules.Allow())...)...)
	if r.stream {
		inet := ofProtocol(protoMPTCP, callrules.Refuse(unix.EPROTONOSUPPORT))
		inet = append(inet, ofType(unix.SOCK_STREAM, ofProtocol(0, callrules.Allow())...)...)
		inet = append(inet, ofType(unix.SOCK_STREAM, ofProtocol(unix.IPPROTO_TCP, callrules.Allow())...)...)
		if r.name {
			inet = append(inet, ofType(unix.SOCK_DGRAM, ofProtocol(0, callrules.Allow())...)...)
			inet = append(inet, ofType(unix.SOCK_DGRAM, ofProtocol(unix.IPPROTO_UDP, callrules.Allow())...)...)
		}
		p = append(p, family(unix.AF_INET, inet...)...)
		p = append(p, family(unix.AF_INET6, inet...)...)
	}
	if r.name {
		p = append(p, family(unix.AF_NETLINK, ofProtocol(unix.NETLINK_ROUTE, callrules.Allow())...)...)
	}
	return append(p, callrules.Refuse(unix.EACCES))
}

// family runs the rules for sockets of one family.
func family(f uint32, rules ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{callrules.Load(callrules.First), callrules.Jump(unix.BPF_JEQ, f, 0, uint8(len(rules)))}, rules...)
}

// ofType runs the rules for sockets of one type.
func ofType(t uint32, rules ...unix.SockFilter) []unix.SockFilter {
	mask := callrules.Statement(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, sockTypeMask)
	return append([]unix.SockFilter{callrules.Load(callrules.Second), mask, callrules.Jump(unix.BPF_JEQ, t, 0, uint8(len(rules)))}, rules...)
}

// ofProtocol runs the rules for sockets of one protocol.
func ofProtocol(number uint32, rules ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{callrules.Load(callrules.Third), callrules.Jump(unix.BPF_JEQ, number, 0, uint8(len(rules)))}, rules...)
}

// try tests the filter by making sockets.
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
	// -1 is not a descriptor: EACCES comes from the filter, any other error from the kernel behind it.
	if err := unix.Connect(-1, &unix.SockaddrUnix{Name: "/"}); !r.connect && !errors.Is(err, unix.EACCES) {
		return errors.New("connections are not refused")
	}
	return nil
}
