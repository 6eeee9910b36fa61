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

// Process is a process that sets itself up.
type Process struct {
	PID     int
	steps   []string
	control *os.File
	report  *os.File
}

// Start starts the process that becomes the first one of a sandbox, in new namespaces, with these descriptors as its standard ones. It waits
// for Admit. The caller reaps it.
func (c Config) Start(namespaces uintptr, stdin, stdout, stderr *os.File) (_ *Process, err error) {
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
	p.step("start")
	for to, from := range []uintptr{stdin.Fd(), stdout.Fd(), stderr.Fd(), uintptr(control), uintptr(reportFar)} {
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
	pid, err := rawfork.Start(namespaces, run, unsafe.Pointer(p))
	if err != nil {
		return nil, err
	}
	started := &Process{PID: pid, steps: p.steps, control: hostEnd(controlFar, "control"), report: hostEnd(report, "report")}
	fds = append(fds[4:], control, reportFar)
	return started, nil
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
	p.await("wait until its ids are mapped")
	p.do(unix.SYS_SETSID)
	p.do(unix.SYS_UMASK, 0o022)
	c.becomeRoot(p)
	p.step("name the sandbox")
	const name = "sandbox"
	p.do(unix.SYS_SETHOSTNAME, p.text(name), uintptr(len(name)))
	c.loopback(p)
	if err := c.view(p); err != nil {
		return err
	}
	c.limit(p)
	c.landlock(p)
	p.await("wait until it is in its control groups")
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

// await waits for the host. The end of the pipe means that the host is gone.
func (p *plan) await(what string) {
	p.step(what)
	p.do(unix.SYS_READ, controlFD, hold(p, new(byte)), 1).want = 1
}

// Admit lets the process go on: first after its ids are mapped, then after it was put into its control groups.
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
