//go:build linux

package main

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call NAME makes one system call that a workload does not need, with arguments that do nothing.
func call(args []string) (answer, error) {
	if len(args) != 1 {
		return answer{}, errors.New("needs the name of a system call")
	}
	try, known := calls()[args[0]]
	if !known {
		return answer{}, fmt.Errorf("no system call %q", args[0])
	}
	return judge(args[0], try()), nil
}

func calls() map[string]func() error {
	return map[string]func() error{
		"clone-user":        func() error { return fork(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}) },
		"unshare-user":      func() error { return fork(&syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWUSER}) },
		"unshare-mount":     func() error { return fork(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}) },
		"unshare-pid":       func() error { return fork(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}) },
		"unshare-net":       func() error { return fork(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}) },
		"mount":             func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "size=64k") },
		"setns":             joinNamespace,
		"chroot":            func() error { return unix.Chroot("/") },
		"mknod":             makeDevice,
		"bpf":               func() error { return raw(unix.SYS_BPF, 0, 0, 0) },
		"perf":              func() error { return raw(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0) },
		"userfaultfd":       func() error { return raw(unix.SYS_USERFAULTFD, 0, 0, 0) },
		"open-by-handle":    func() error { return raw(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0) },
		"fanotify":          func() error { return raw(unix.SYS_FANOTIFY_INIT, 0, 0, 0) },
		"syslog":            readLogSize,
		"add-key":           addKey,
		"keyctl":            func() error { return raw(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, sessionKeyring, 0) },
		"request-key":       requestKey,
		"signal-init":       func() error { return unix.Kill(1, 0) },
		"trace-init":        func() error { return raw(unix.SYS_PTRACE, unix.PTRACE_SEIZE, 1, 0) },
		"read-init-memory":  readInit,
		"steal-init-stream": stealStream,
		"become-root":       becomeRoot,
		"shed-groups":       func() error { return syscall.Setgroups(nil) },
		"set-host-name":     func() error { return unix.Sethostname([]byte("sandbox")) },
	}
}

// becomeRoot refuses with EPERM also where no user of the host is root here, which the kernel calls an invalid argument.
func becomeRoot() error {
	err := syscall.Setresuid(0, 0, 0)
	if errors.Is(err, unix.EINVAL) {
		return unix.EPERM
	}
	return err
}

// raw makes a system call whose pointers are all null.
func raw(number, a, b, c uintptr) error {
	if _, _, errno := unix.Syscall6(number, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// sessionKeyring is KEY_SPEC_SESSION_KEYRING, -3.
const sessionKeyring = ^uintptr(2)

// fork starts this program again in a new namespace.
func fork(attr *syscall.SysProcAttr) error {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"flynn-probe", "exit"}, &syscall.ProcAttr{Sys: attr})
	if err != nil {
		return err
	}
	_, err = syscall.Wait4(pid, nil, 0, nil)
	return err
}

// joinNamespace joins a namespace of process 1, one that needs no preparation.
func joinNamespace() error {
	fd, err := unix.Open("/proc/1/ns/uts", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Setns(fd, unix.CLONE_NEWUTS)
}

// makeDevice makes the device of /dev/null and removes it again.
func makeDevice() error {
	const path = "/tmp/flynn-probe-device"
	err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
	if err == nil {
		_ = unix.Unlink(path)
	}
	return err
}

func readLogSize() error {
	_, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil)
	return err
}

func addKey() error {
	_, err := unix.AddKey("user", "flynn-probe", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	return err
}

func requestKey() error {
	_, err := unix.RequestKey("user", "flynn-probe-missing", "", 0)
	return err
}

// readInit reads process 1 at an unmapped address.
func readInit() error {
	var b [1]byte
	local := []unix.Iovec{{Base: &b[0], Len: 1}}
	_, err := unix.ProcessVMReadv(1, local, []unix.RemoteIovec{{Base: uintptr(unsafe.Sizeof(b)), Len: 1}}, 0)
	return err
}

func stealStream() error {
	init, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return err
	}
	defer unix.Close(init)
	fd, err := unix.PidfdGetfd(init, 0, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}
