package within

import (
	"context"
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

// Descriptors of the new process, besides the standard ones. It waits for the host at controlFD and writes why it failed to reportFD; both
// are closed when it executes its program.
const (
	controlFD = 3
	reportFD  = 4
	firstFree = 5
)

// Streams are what the process has as its standard descriptors.
type Streams struct{ In, Out, Err *os.File }

// Groups are the control groups of the process.
type Groups struct {
	Doors  []*os.File // files to which the process writes 0, which moves it into their groups
	Folder *os.File   // a group of version 2 in which it starts, if the kernel can do that; may be nil
}

// Process is a process that sets itself up.
type Process struct {
	PID     int
	steps   []string
	control *os.File
	report  *os.File
}

// Start starts the process that becomes the first one of a sandbox, in new namespaces. It waits for Admit. The caller reaps it.
func (c Config) Start(namespaces uintptr, streams Streams, groups Groups) (_ *Process, err error) {
	p := &plan{paths: map[string]kind{"": folder}}
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	control, controlFar, err := pipe()
	if err != nil {
		return nil, err
	}
	fds = append(fds, control, controlFar)
	report, reportFar, err := pipe()
	if err != nil {
		return nil, err
	}
	fds = append(fds, report, reportFar)
	p.step("join its control groups")
	for _, door := range groups.Doors {
		p.do(unix.SYS_WRITE, door.Fd(), p.text("0"), 1)
	}
	p.step("start")
	for to, from := range []uintptr{streams.In.Fd(), streams.Out.Fd(), streams.Err.Fd(), uintptr(control), uintptr(reportFar)} {
		fd, err := unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, firstFree) // above the numbers that it gets
		if err != nil {
			return nil, err
		}
		fds = append(fds, fd)
		flags := uintptr(0)
		if to >= controlFD {
			flags = unix.O_CLOEXEC
		}
		p.do(unix.SYS_DUP3, uintptr(fd), uintptr(to), flags)
	}
	if err := c.compile(p); err != nil {
		return nil, err
	}
	pid, err := fork(namespaces, groups, p)
	if err != nil {
		return nil, err
	}
	started := &Process{PID: pid, steps: p.steps, control: hostEnd(controlFar, "control"), report: hostEnd(report, "report")}
	fds = append(fds[4:], control, reportFar)
	return started, nil
}

// fork starts the process in its group where the kernel can: to move it there may take as long as all else.
func fork(namespaces uintptr, groups Groups, p *plan) (pid int, err error) {
	if groups.Folder != nil {
		all := p.calls
		p.calls = all[len(groups.Doors):]
		if pid, err = rawfork.Start(namespaces, int(groups.Folder.Fd()), run, unsafe.Pointer(p)); err == nil {
			return pid, nil
		}
		p.calls = all
	}
	return rawfork.Start(namespaces, rawfork.Anywhere, run, unsafe.Pointer(p))
}

// pipe returns both ends of a pipe, the reading one first.
func pipe() (int, int, error) {
	var ends [2]int
	err := unix.Pipe2(ends[:], unix.O_CLOEXEC)
	return ends[0], ends[1], err
}

// hostEnd returns the host's end of a pipe, which has deadlines.
func hostEnd(fd int, name string) *os.File {
	_ = unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
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

// Admit lets the process go on, after its ids are mapped.
func (p *Process) Admit() error {
	_, err := p.control.Write([]byte{1})
	return err
}

// Wait returns once the process executes its program, or the reason why it does not.
func (p *Process) Wait(ctx context.Context, limit time.Duration) error {
	defer p.Close()
	deadline := time.Now().Add(limit)
	if until, ok := ctx.Deadline(); ok && until.Before(deadline) {
		deadline = until
	}
	if err := p.report.SetReadDeadline(deadline); err != nil {
		return err
	}
	var failure [8]byte
	_, err := io.ReadFull(p.report, failure[:])
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("it was not set up in time: %w", err)
	}
	step, errno := binary.NativeEndian.Uint32(failure[:4]), syscall.Errno(binary.NativeEndian.Uint32(failure[4:]))
	if int(step) >= len(p.steps) {
		return errno
	}
	return fmt.Errorf("%s: %w", p.steps[step], errno)
}

// Close lets go of the process, which ends if it is not set up yet.
func (p *Process) Close() {
	p.control.Close()
	p.report.Close()
}
