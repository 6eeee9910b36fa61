package callfilter

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/internal/callrules"
)

// decide runs the program as the kernel would.
func decide(t *testing.T, single bool, arch, call, first uint32) uint32 {
	t.Helper()
	var raw []bpf.RawInstruction
	for _, f := range Program(single) {
		raw = append(raw, bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K})
	}
	program, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the program has an unknown instruction")
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64) // seccomp_data; the VM reads in network order
	binary.BigEndian.PutUint32(data[callrules.Number:], call)
	binary.BigEndian.PutUint32(data[callrules.Arch:], arch)
	binary.BigEndian.PutUint32(data[callrules.First:], first)
	n, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

const refusedCall = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)

// TestEveryCall compares the program with the list for each number.
func TestEveryCall(t *testing.T) {
	special := []uint32{unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_SOCKET, unix.SYS_PERSONALITY, unix.SYS_PRLIMIT64, unix.SYS_UNSHARE}
	for _, single := range []bool{false, true} {
		for call := uint32(0); call < 1024; call++ {
			if slices.Contains(special, call) {
				continue
			}
			want := refusedCall
			if slices.Contains(allowedCalls, call) {
				want = unix.SECCOMP_RET_ALLOW
			}
			if got := decide(t, single, auditArch, call, 7); got != want {
				t.Errorf("call %d, single %v: %#x, want %#x", call, single, got, want)
			}
		}
	}
}

func TestArguments(t *testing.T) {
	const allowed = unix.SECCOMP_RET_ALLOW
	unknown := unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	for _, c := range []struct {
		name              string
		single            bool
		arch, call, first uint32
		want              uint32
	}{
		{"another architecture", false, auditArch ^ 1, unix.SYS_READ, 0, unknown},
		{"x32", false, auditArch, callrules.X32 | unix.SYS_READ, 0, unknown},
		{"the largest number", false, auditArch, ^uint32(0), 0, unknown},
		{"a thread", false, auditArch, unix.SYS_CLONE, unix.CLONE_THREAD | unix.CLONE_VM, allowed},
		{"a namespace among flags", false, auditArch, unix.SYS_CLONE, unix.CLONE_VM | unix.CLONE_NEWUSER, refusedCall},
		{"clone3", false, auditArch, unix.SYS_CLONE3, 0, unknown},
		{"a raw socket's family", false, auditArch, unix.SYS_SOCKET, unix.AF_PACKET, refusedCall},
		{"vsock", false, auditArch, unix.SYS_SOCKET, unix.AF_VSOCK, refusedCall},
		{"a Unix socket", false, auditArch, unix.SYS_SOCKET, unix.AF_UNIX, allowed},
		{"unshare", false, auditArch, unix.SYS_UNSHARE, unix.CLONE_NEWUTS, refusedCall},
		{"unshare of names, one user", true, auditArch, unix.SYS_UNSHARE, unix.CLONE_NEWUTS, allowed},
		{"unshare of users, one user", true, auditArch, unix.SYS_UNSHARE, unix.CLONE_NEWUSER, refusedCall},
		{"limits of another", true, auditArch, unix.SYS_PRLIMIT64, 1, refusedCall},
		{"own limits", true, auditArch, unix.SYS_PRLIMIT64, 0, allowed},
		{"limits with several users", false, auditArch, unix.SYS_PRLIMIT64, 1, allowed},
	} {
		if got := decide(t, c.single, c.arch, c.call, c.first); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}
