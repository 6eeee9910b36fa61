package within

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/callfilter"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/rawfork"
)

// Descriptors of a new process, besides the standard ones and SocketFD. It waits at controlFD until its ids are mapped, and writes why it failed
// to reportFD, which is closed when it executes its program.
const (
	controlFD = frame.SettingsFD
	reportFD  = 5
	firstFree = 6
)

// usualCalls is about how many calls a plan has.
const usualCalls = 512

// streams are the standard descriptors of a process.
const streams = 3

// descriptor is one of a new process, and that of this one which it is a copy of.
type descriptor struct{ to, from int }

// inherit gives the process its descriptors, and closes the others above SocketFD. release has to be called after the fork.
func (p *plan) inherit(files ...descriptor) (release func(), err error) {
	var copies []int
	release = func() {
		for _, fd := range copies {
			unix.Close(fd)
		}
	}
	p.step("start")
	for _, f := range files {
		fd, err := unix.FcntlInt(uintptr(f.from), unix.F_DUPFD_CLOEXEC, firstFree) // above the numbers that it gets
		if err != nil {
			release()
			return nil, err
		}
		copies = append(copies, fd)
		flags := uintptr(0)
		if f.to >= streams {
			flags = unix.O_CLOEXEC
		}
		p.do(unix.SYS_DUP3, uintptr(fd), uintptr(f.to), flags)
	}
	p.do(unix.SYS_CLOSE_RANGE, firstFree, uintptr(^uint32(0)), 0)
	return release, nil
}

// fork starts the process of a plan.
func (p *plan) fork(flags uintptr, group int) (pid int, err error) {
	return rawfork.Start(flags, group, run, unsafe.Pointer(p))
}

// start starts the first process of a sandbox and answers the request. The process still has to set itself up, and says in its report if it
// cannot.
func (s *server) start(r *request) {
	if err := r.Config.resolve(); err != nil {
		r.answer(0, err)
		return
	}
	sources := r.Config.detach()
	defer func() { closeAll(sources.wait().fds) }()
	view, err := s.views.of(r.Config)
	if err == nil {
		network := s.network(r.Config)
		err = view.do(func() { r.answer(s.begin(r, view, network, sources)) })
	}
	if err != nil {
		r.answer(0, err)
	}
}

// begin runs on a thread that has the view as its root. Every process that it returns has to be reaped, even with an error.
func (s *server) begin(r *request, view *view, network *network, sources *detached) (pid int, err error) {
	control, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	held := &spare{config: r.Config, view: view.shows, control: control[0], mounts: -1}
	defer func() { held.close() }()
	pid, err = r.fork(view, network, control[1])
	unix.Close(control[1])
	if err != nil {
		return 0, err
	}
	if err = r.Config.IDs.inner().write(s.proc, pid, r.Config.Single); err == nil {
		err = sources.wait().err
	}
	if err == nil {
		err = unix.Sendmsg(control[0], []byte{1}, unix.UnixRights(sources.fds...), nil, 0)
	}
	switch {
	case err != nil:
	case r.Spare:
		held.pid = pid
		if held.mounts, err = unix.Openat(s.proc, strconv.Itoa(pid)+"/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			held = s.swap(held)
		}
	default:
		err = held.complete(r.Nonce)
	}
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return pid, err
}

// fork compiles the plan and starts its process. Where the kernel can, the process starts in its control group: to move it there may take as long
// as all else.
func (r *request) fork(view *view, network *network, control int) (pid int, err error) {
	p := newPlan("", view.copyOfPaths())
	p.step("join its control groups")
	for _, member := range r.members {
		p.do(unix.SYS_WRITE, uintptr(member), p.text("0"), 1)
	}
	files := []descriptor{{controlFD, control}, {reportFD, r.report}}
	for to, from := range r.std {
		files = append(files, descriptor{to, from})
	}
	release, err := p.inherit(files...)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := r.Config.compile(p); err != nil {
		return 0, err
	}
	if err := network.enter(); err != nil {
		return 0, err
	}
	if r.folder >= 0 {
		all := p.calls
		p.calls = all[len(r.members):]
		if pid, err = p.fork(namespaces, r.folder); err == nil {
			return pid, nil
		}
		p.calls = all
	}
	return p.fork(namespaces, rawfork.Anywhere)
}

// namespaces are the flags of a sandbox's namespaces, except that of the network, which is made before (network), and that of control groups, which
// begins at the group that the process joins.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// maxReport bounds what a process writes about its failure.
const maxReport = 4 << 10

// Outcome waits until a process executes its program, and returns an error if it could not.
func Outcome(report io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(report, maxReport))
	var errno uint32
	size := int(unsafe.Sizeof(errno))
	switch {
	case err != nil:
		return fmt.Errorf("it was not set up in time: %w", err)
	case len(text) == 0:
		return nil
	case len(text) < size:
		return errors.New("it was not set up")
	}
	errno = binary.NativeEndian.Uint32(text)
	return fmt.Errorf("%s: %w", text[size:], syscall.Errno(errno))
}

// wait makes the process wait until this one has mapped its ids, and receive the sandbox's mounts, which get the numbers from firstFree on.
func (p *plan) wait(sources int) {
	p.step("wait until its ids are mapped")
	if sources == 0 {
		p.do(unix.SYS_READ, controlFD, hold(p, new(byte)), 1).want = 1 // 0 means that the server is gone
		return
	}
	rights := make([]byte, unix.CmsgSpace(4*sources))
	message := &unix.Msghdr{Iov: &unix.Iovec{Base: new(byte), Len: 1}, Iovlen: 1, Control: &rights[0]}
	message.SetControllen(len(rights))
	p.do(unix.SYS_RECVMSG, controlFD, hold(p, message), unix.MSG_CMSG_CLOEXEC).want = 1
}

// compile adds everything that the process does.
func (c Config) compile(p *plan) error {
	p.wait(len(c.sources()))
	p.do(unix.SYS_SETSID)
	p.do(unix.SYS_UMASK, 0o022)
	c.becomeRoot(p)
	p.step("hide the names of its control groups")
	p.do(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP)
	p.step("name the sandbox")
	const name = "sandbox"
	p.do(unix.SYS_SETHOSTNAME, p.text(name), uintptr(len(name)))
	if err := c.fill(p); err != nil {
		return err
	}
	c.limit(p)
	c.landlock(p)
	c.drop(p)
	p.step("restrict system calls")
	filter := filterOf(c.Single)
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	p.do(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, hold(p, program))
	if c.Probe {
		p.do(unix.SYS_EXIT_GROUP, 0)
		return nil
	}
	p.step("execute " + c.Program)
	p.do(unix.SYS_FCNTL, controlFD, unix.F_SETFD, 0)                            // the supervisor receives its settings there
	p.do(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, ownSlack).forgive = forgiveAll // it only costs time
	p.execute(c.Program, []string{c.Program, frame.Awaiting}, c.environment())
	return nil
}

// filterOf returns the filter of system calls of a sandbox with one user, or with several.
func filterOf(single bool) []unix.SockFilter {
	if single {
		return filterOfSingle()
	}
	return filterOfSeveral()
}

var (
	filterOfSingle  = sync.OnceValue(func() []unix.SockFilter { return callfilter.Program(true) })
	filterOfSeveral = sync.OnceValue(func() []unix.SockFilter { return callfilter.Program(false) })
)

// execute makes the process another program.
func (p *plan) execute(path string, argv, environment []string) {
	p.do(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, hold(p, new(uint64)), 0, 8)
	p.do(unix.SYS_EXECVE, p.text(path), p.texts(argv), p.texts(environment))
}
