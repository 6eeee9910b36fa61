// Package callfilter restricts the system calls of native sandboxes, as engines do those of containers. Start with Program.
package callfilter

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/internal/callrules"
)

// newNamespaces are the flags of clone for every kind of namespace.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID |
	unix.CLONE_NEWNET

// SpareFirst keeps this thread, and what it starts, from signalling process 1, whose own threads signal each other.
func SpareFirst() error {
	p := []unix.SockFilter{callrules.Load(callrules.Number)}
	for _, call := range []uint32{unix.SYS_KILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO} {
		p = append(p, arguments(call, callrules.Jump(unix.BPF_JEQ, 1, 1, 0), callrules.Allow())...)
	}
	p = append(p, callrules.Allow())
	return callrules.Install(p)
}

// Program returns the BPF program that allows only the system calls that programs need. Every call that it does not name is refused; so are
// those of other architectures. In a sandbox with a single user, commands must not limit the resources of the supervisor, which makes
// namespaces of names, for which commands lack the capability.
func Program(single bool) []unix.SockFilter {
	p := []unix.SockFilter{
		callrules.Load(callrules.Arch), callrules.Jump(unix.BPF_JEQ, auditArch, 1, 0), callrules.Refuse(unix.ENOSYS),
		callrules.Load(callrules.Number), callrules.Jump(unix.BPF_JGE, callrules.X32, 0, 1), callrules.Refuse(unix.ENOSYS),
	}
	if single {
		p = append(p, arguments(unix.SYS_PRLIMIT64, anyOf(0)...)...)
		p = append(p, arguments(unix.SYS_UNSHARE, anyOf(unix.CLONE_NEWUTS)...)...)
	}
	p = append(p, callrules.Jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), callrules.Refuse(unix.ENOSYS)) // its flags are in memory; callers fall back to clone
	p = append(p, arguments(unix.SYS_CLONE, callrules.Jump(unix.BPF_JSET, newNamespaces, 1, 0), callrules.Allow())...)
	p = append(p, arguments(unix.SYS_SOCKET, anyOf(unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)...)...)
	p = append(p, arguments(unix.SYS_PERSONALITY, anyOf(0, 8, 0x20000, 0x20008, 0xffffffff)...)...)
	return append(p, search(bounds(allowedCalls), false)...)
}

// bounds returns the numbers at which calls begin or cease to be allowed.
func bounds(allowed []uint32) (out []uint32) {
	for _, call := range slices.Sorted(slices.Values(allowed)) {
		if n := len(out); n > 0 && out[n-1] == call {
			out = out[:n-1]
		} else {
			out = append(out, call)
		}
		out = append(out, call+1)
	}
	return out
}

// search looks a call up among the bounds. below is whether it is allowed below the first one. The kernel tries a program with every call
// when it is installed, so one that compared with each would take longer than all else.
func search(bounds []uint32, below bool) []unix.SockFilter {
	switch {
	case len(bounds) > 0:
		half := len(bounds) / 2
		lower := search(bounds[:half], below)
		upper := search(bounds[half+1:], below == (half%2 == 1))
		return append(append([]unix.SockFilter{callrules.Jump(unix.BPF_JGE, bounds[half], uint8(len(lower)), 0)}, lower...), upper...)
	case below:
		return []unix.SockFilter{callrules.Allow()}
	}
	return []unix.SockFilter{callrules.Refuse(unix.EPERM)}
}

// arguments applies rules to the first argument of a call. A call that they do not allow is refused.
func arguments(call uint32, rules ...unix.SockFilter) []unix.SockFilter {
	rules = append(append([]unix.SockFilter{callrules.Load(callrules.First)}, rules...), callrules.Refuse(unix.EPERM))
	return append([]unix.SockFilter{callrules.Jump(unix.BPF_JEQ, call, 0, uint8(len(rules)))}, rules...)
}

func anyOf(values ...uint32) (rules []unix.SockFilter) {
	for _, v := range values {
		rules = append(rules, callrules.Jump(unix.BPF_JEQ, v, 0, 1), callrules.Allow())
	}
	return rules
}
