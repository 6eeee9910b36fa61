package within

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/callfilter"
	"github.com/flynnhost/flynn/host/sandbox/rawfork"
)

// Descriptors of the new process, besides the standard ones. It waits at controlFD until its ids are mapped, and writes why it failed to
// reportFD. Both are closed when it executes its program.
const (
	controlFD = 3
	reportFD  = 4
	firstFree = 5
)

// usualCalls is about how many calls a plan has.
const usualCalls = 512

// setUpTimeout bounds the time until the process executes its program.
const setUpTimeout = 10 * time.Second

// streams are the standard descriptors of a process.
const streams = 3

// start starts a process that sets itself up, and returns once it executes its program. Every process that it returns has to be reaped, even
// with an error.
func (c Config) start(std []int, members []int, folder int) (pid int, err error) {
	control, controlFar, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	report, reportFar, err := os.Pipe()
	if err != nil {
		return 0, errors.Join(err, control.Close(), controlFar.Close())
	}
	defer report.Close()
	p := &plan{paths: map[string]kind{"": directory}, calls: make([]call, 0, usualCalls)}
	p.step("join its control groups")
	for _, member := range members {
		p.do(unix.SYS_WRITE, uintptr(member), p.text("0"), 1)
	}
	pid, err = c.fork(p, append(std[:streams:streams], int(control.Fd()), int(reportFar.Fd())), len(members), folder)
	control.Close()
	reportFar.Close()
	if err == nil {
		err = c.IDs.apply(pid, c.Single)
	}
	if err == nil {
		_, err = controlFar.Write([]byte{1})
	}
	controlFar.Close()
	if err == nil {
		err = p.outcome(report)
	}
	if err != nil && pid > 0 {
		_ = unix.Kill(pid, unix.SIGKILL) // it ends by itself unless a system call hangs
	}
	return pid, err
}

// fork compiles the rest of the plan and starts its process. Where the kernel can, the process starts in its control group: to move it there
// may take as long as all else.
func (c Config) fork(p *plan, files []int, members, folder int) (pid int, err error) {
	p.step("start")
	for to, from := range files {
		fd, err := unix.FcntlInt(uintptr(from), unix.F_DUPFD_CLOEXEC, firstFree) // above the numbers that it gets
		if err != nil {
			return 0, err
		}
		defer unix.Close(fd)
		flags := uintptr(0)
		if to >= streams {
			flags = unix.O_CLOEXEC
		}
		p.do(unix.SYS_DUP3, uintptr(fd), uintptr(to), flags)
	}
	if err := c.compile(p); err != nil {
		return 0, err
	}
	if folder >= 0 {
		all := p.calls
		p.calls = all[members:]
		if pid, err = rawfork.Start(c.namespaces(), folder, run, unsafe.Pointer(p)); err == nil {
			return pid, nil
		}
		p.calls = all
	}
	return rawfork.Start(c.namespaces(), rawfork.Anywhere, run, unsafe.Pointer(p))
}

// namespaces are the flags of the namespaces of a sandbox, except that of control groups, which begins at the group that it joins.
func (c Config) namespaces() uintptr {
	f := uintptr(unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS)
	if c.Loopback {
		f |= unix.CLONE_NEWNET
	}
	return f
}

// outcome waits until the process executes its program, or writes why it does not.
func (p *plan) outcome(report *os.File) error {
	if err := report.SetReadDeadline(time.Now().Add(setUpTimeout)); err != nil {
		return err
	}
	var failure [8]byte
	switch _, err := io.ReadFull(report, failure[:]); {
	case err == io.EOF:
		return nil
	case err != nil:
		return fmt.Errorf("it was not set up in time: %w", err)
	}
	step, errno := binary.NativeEndian.Uint32(failure[:4]), syscall.Errno(binary.NativeEndian.Uint32(failure[4:]))
	return fmt.Errorf("%s: %w", p.steps[step], errno)
}

// compile adds everything that the process does.
func (c Config) compile(p *plan) error {
	p.do(unix.SYS_CLOSE_RANGE, firstFree, uintptr(^uint32(0)), 0) // the host's
	p.step("wait until its ids are mapped")
	p.do(unix.SYS_READ, controlFD, hold(p, new(byte)), 1).want = 1 // 0 means that the host is gone
	p.do(unix.SYS_SETSID)
	p.do(unix.SYS_UMASK, 0o022)
	c.becomeRoot(p)
	p.step("hide the names of its control groups")
	p.do(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP)
	p.step("name the sandbox")
	const name = "sandbox"
	p.do(unix.SYS_SETHOSTNAME, p.text(name), uintptr(len(name)))
	c.loopback(p)
	if err := c.view(p); err != nil {
		return err
	}
	c.limit(p)
	c.landlock(p)
	c.drop(p)
	p.step("restrict system calls")
	filter := callfilter.Program(c.Single)
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	p.do(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, hold(p, program))
	if c.Probe {
		p.do(unix.SYS_EXIT_GROUP, 0)
		return nil
	}
	p.step("execute " + c.Argv[0])
	p.do(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, ownSlack).forgive = forgiveAll // it only costs time
	p.do(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, hold(p, new(uint64)), 0, 8)
	p.do(unix.SYS_EXECVE, p.text(c.Argv[0]), p.texts(c.Argv), p.texts(c.environment()))
	return nil
}
