//go:build linux

// Package supervise is the process with id 1 in every sandbox container: it starts commands as the workload's user, streams their output,
// ends them with everything that they started, reaps zombies and accesses files, all on request over its stdin and stdout.
//
// Start with Run. It refuses to work unless it is process 1, because its means of ending commands would harm any other machine. It stays
// root in the container but has no capabilities other than SETUID, SETGID and KILL, so it can become the workload's user and signal it, and
// nothing else; single.go has what is different where there is no other user, and await.go how it starts before its sandbox is complete. It makes no policy: limits and timeouts come with requests, and the host decides about each connection to the proxy
// (outlet.go).
//
// Two ideas carry the package. Each command runs with its own supplementary group, its tag, which no descendant can drop and everybody can
// read in /proc, so that a command's processes are found however they forked (tree.go). And file requests run on one thread whose
// file-system identity is the workload's, so that the kernel itself refuses what the workload may not do (files.go).
package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// maxRequests bounds the requests that are open at the same time.
const maxRequests = 512

// Run serves the host on the standard streams until stdin ends. args follow the program's name: the nonce, or the word that makes this
// process change the owner of a volume.
func Run(args []string) error {
	if done, err := runOther(args); done {
		return err
	}
	if len(args) != 1 {
		return errors.New("run as process 1 of a sandbox container with one argument, its nonce")
	}
	if err := first(); err != nil {
		return err
	}
	s, nonce := newSupervisor(newOutgoing(os.Stdout), nil), args[0]
	if err := s.prepare(); err != nil {
		return err
	}
	if nonce != frame.Awaiting {
		return s.serve(nonce, os.Stdin)
	}
	if err := s.takeStream(); err != nil {
		return err
	}
	settings, err := s.awaitSettings()
	if settings == nil {
		return err
	}
	s.wall = settings.Writable
	return s.serve(settings.Nonce, s.direct)
}

// runOther does what an argument names instead of supervising, and reports whether there was one.
func runOther(args []string) (done bool, err error) {
	if len(args) > 0 && args[0] == ownWord {
		return true, runOwn(args[1:])
	}
	return false, nil
}

// first prepares this process, which must be the first one.
func first() error {
	if os.Getpid() != 1 {
		return fmt.Errorf("run only as process 1 of a sandbox container, not as process %d", os.Getpid())
	}
	relax()
	return limitOpenFiles()
}

// supervisor is the state of one Run.
type supervisor struct {
	ctx     context.Context
	out     *outgoing
	hello   frame.HelloBody
	spawner *spawner
	scanner scanner
	guard   *guard
	files   *files
	meters  *meters
	socket  *os.File                  // the control socket in use; may be nil
	direct  *os.File                  // a socket of the host that was standard input and output; may be nil
	hosts   <-chan io.ReadWriteCloser // that connect to us; nil if we do not listen
	epoch   uint64                    // of the last host
	outlet  *outlet                   // may be nil
	lease   *lease
	tracker *tracker
	spills  *spills
	disk    *disk // may be nil
	in      *incoming
	stilled map[int]bool // processes that are stopped while the container is idle; used by the reading goroutine only
	// running counts the commands that have started and are not over, started all that have started.
	running, started atomic.Int64
	dialed           atomic.Int64 // open connections of the host to programs
	shell            string       // runs scripts
	wall             wall
	ready            <-chan error // receives once there are enough threads, and the helper
	handles          bool         // the kernel supports pidfds
	fastSlots        fastSlots

	// transfers holds a token for each running transfer.
	transfers chan struct{}

	// closing is held for reading while a request's last frames are sent, and guards parted, which is set when the host is gone.
	closing sync.RWMutex
	parted  bool

	mu       sync.Mutex
	requests map[uint32]handler
	kept     map[uint32]*command // background commands, until forgotten
}

// handler is an open request, to which its frames are delivered. Its methods run on the reading goroutine and never block.
type handler interface {
	data(p []byte) error
	end()
	grant(stream uint8, p []byte) error
	// cut records that the host is gone: nothing more arrives, and what is sent is dropped.
	cut()
}

func newSupervisor(out *outgoing, hosts <-chan io.ReadWriteCloser) *supervisor {
	return &supervisor{
		out:      out,
		hosts:    hosts,
		requests: make(map[uint32]handler),
		kept:     make(map[uint32]*command),

		handles:   watchable(),
		fastSlots: make(fastSlots, maxFastPaths),

		transfers: make(chan struct{}, maxTransfers),
	}
}

// serve serves the first host, whose frames come from in, and those after it.
func (s *supervisor) serve(nonce string, in io.Reader) error {
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	reader := newIncoming(in)
	if err := s.greet(reader.Reader, nonce); err != nil {
		return err
	}
	if s.socket != nil {
		reader = newIncoming(s.socket)
		s.out.attach(s.socket)
		go s.follow(s.socket, in)
	}
	if s.outlet != nil {
		s.outlet.run()
	}
	if s.disk != nil {
		go s.disk.run()
	}
	return s.attend(reader)
}

// attend serves the host, and the next one if anything has to be kept until then.
func (s *supervisor) attend(in *incoming) error {
	for {
		s.in = in
		if err := s.read(in.Reader); err != nil {
			return err
		}
		if in = s.outlast(); in == nil {
			return nil // the kernel ends the container with us
		}
	}
}

// read handles frames until the host is gone. An error means that the host violated the protocol.
func (s *supervisor) read(reader *frame.Reader) error {
	for {
		f, err := reader.Next()
		if err == nil {
			err = s.dispatch(f)
		}
		if errors.Is(err, frame.ErrProtocol) {
			return err
		}
		if err != nil {
			return nil
		}
	}
}

// prepare does what needs to know nothing of the sandbox, so that it works when no further process or thread can be started.
func (s *supervisor) prepare() (err error) {
	if single() {
		if err := keepToItself(); err != nil {
			return err
		}
	}
	dropHandlers()
	spareProcessor()
	s.meters = openMeters()
	s.scanner.starts = openStartWatch()
	if s.spawner, err = newSpawner(); err != nil {
		return err
	}
	s.spawner.starts = s.scanner.starts
	go s.spawner.reap()
	s.guard = newGuard(s.spawner)
	ready := make(chan error, 1)
	s.ready = ready
	go func() {
		err := s.guard.park() // first, because it copies what there is
		<-warmThreads(spareThreads)
		ready <- err
	}()
	return nil
}

// greet receives the host's Hello, prepares for commands, and answers with the evidence of where this process runs.
func (s *supervisor) greet(reader *frame.Reader, nonce string) error {
	f, err := reader.Next()
	if err != nil {
		return err
	}
	if f.Type != frame.Hello {
		return fmt.Errorf("%w: first frame has type %d", frame.ErrProtocol, f.Type)
	}
	if err := frame.Decode(f.Payload, &s.hello); err != nil {
		return err
	}
	if s.hello.UID <= 0 || s.hello.GID <= 0 {
		return fmt.Errorf("refuse workload user %d:%d", s.hello.UID, s.hello.GID)
	}
	s.spawner.begin(s.hello, s.wall)
	if s.files, err = openFiles(s.hello, s.wall); err != nil {
		return err
	}
	s.spills = newSpills(s.files)
	if s.tracker, err = newTracker(s.hello); err != nil {
		return err
	}
	if s.disk, err = openDisk(s); err != nil {
		return err
	}
	openScratch(s.hello.Scratch)
	openHeld()
	s.shell = findShell()
	welcome := lookAround(nonce, s.hello.Workspace)
	welcome.Shell = s.shell
	s.identify(&welcome)
	if s.hello.Proxy || s.hello.Bridge {
		if s.outlet, err = openOutlet(s); err != nil {
			return err
		}
		welcome.Proxy, welcome.Bridge = s.hello.Proxy, s.hello.Bridge
	}
	welcome.ControlSocket = s.changeStream()
	s.epoch = s.hello.Epoch
	s.lease = newLease(s.hello, welcome.ControlSocket || s.hosts != nil, s.out.hangUp)
	err = s.out.Send(frame.Frame{Type: frame.Welcome, Payload: frame.Encode(welcome)})
	return errors.Join(err, <-s.ready) // before any command runs
}

// changeStream connects to the socket that the host offers. A failure is not an error. With a direct stream only a later host offers one.
func (s *supervisor) changeStream() bool {
	if s.hello.ControlSocket == "" {
		return false
	}
	if s.direct != nil {
		return true
	}
	control, err := dial(s.hello.ControlSocket)
	if err != nil {
		return false
	}
	s.socket = control
	return true
}

// dial connects to a Unix socket without package net, which in a build with cgo would link the C library, and this program has to run in
// images without one. Such a connect never blocks unless the backlog is full.
func dial(path string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// follow closes the control socket when stdin ends, which means that the host is gone.
func (s *supervisor) follow(control io.Closer, stdin io.Reader) {
	_, _ = io.Copy(io.Discard, stdin)
	control.Close()
}

// dispatch handles one frame. It waits for nothing but a short command, and only until another frame arrives. An error ends the supervisor.
func (s *supervisor) dispatch(f frame.Frame) error {
	if frame.IsConnection(f.ID) {
		return s.outlet.deliver(f)
	}
	switch f.Type {
	case frame.Data, frame.End, frame.Credit:
		return s.deliver(f)
	case frame.Stop, frame.Signal, frame.Forget, frame.Resize:
		return s.control(f)
	case frame.Exec, frame.Output, frame.Sweep, frame.Read, frame.Write, frame.List,
		frame.Import, frame.Export, frame.Remove, frame.Stat, frame.Listen:
		return s.open(f)
	case frame.Dial:
		return s.openDial(f)
	case frame.Renew:
		return s.lease.renew(f.Payload)
	case frame.Pause:
		return s.pause(f.Payload)
	case frame.Kept:
		return s.openKept(f)
	}
	return fmt.Errorf("%w: second hello", frame.ErrProtocol)
}

// deliver passes frames of a stream to their request. The host may have sent them before it learned that the request is closed, so an
// unknown id is not a violation.
func (s *supervisor) deliver(f frame.Frame) error {
	h := s.request(f.ID)
	if h == nil {
		return nil
	}
	switch f.Type {
	case frame.Data:
		return h.data(f.Payload)
	case frame.End:
		h.end()
		return nil
	default:
		return h.grant(f.Stream, f.Payload)
	}
}

func (s *supervisor) control(f frame.Frame) error {
	if t, ok := s.request(f.ID).(*transfer); ok && f.Type == frame.Stop {
		t.cancel()
		return nil
	}
	c := s.command(f.ID)
	if c == nil {
		return nil
	}
	switch f.Type {
	case frame.Stop:
		var b frame.StopBody
		if err := frame.Decode(f.Payload, &b); err != nil {
			return err
		}
		c.requestStop(b)
	case frame.Signal:
		var b frame.SignalBody
		if err := frame.Decode(f.Payload, &b); err != nil {
			return err
		}
		c.signal(b.Number)
	case frame.Resize:
		var b frame.Size
		if err := frame.Decode(f.Payload, &b); err != nil {
			return err
		}
		c.resize(b)
	case frame.Forget:
		s.forget(f.ID)
	}
	return nil
}

// open starts a request on a new goroutine, unless it is a short command.
func (s *supervisor) open(f frame.Frame) error {
	switch f.Type {
	case frame.Exec:
		var b frame.ExecBody
		if err := frame.Decode(f.Payload, &b); err != nil {
			return err
		}
		c := newCommand(s, f.ID, b)
		if err := s.add(f.ID, c); err != nil {
			return err
		}
		if b.Background {
			s.keep(c)
		}
		if !c.runHere() {
			go c.run()
		}
		return nil
	case frame.Output:
		return openTransfer(s, f, s.output)
	case frame.Sweep:
		return openTransfer(s, f, s.sweep)
	case frame.Read:
		return openTransfer(s, f, s.files.read)
	case frame.Write:
		return openTransfer(s, f, s.files.write)
	case frame.Import:
		return openTransfer(s, f, s.files.importTree)
	case frame.Export:
		return openTransfer(s, f, s.files.exportTree)
	case frame.Remove:
		return openTransfer(s, f, s.files.remove)
	case frame.Stat:
		return openTransfer(s, f, s.files.stat)
	case frame.Listen:
		return openTransfer(s, f, s.listening)
	default:
		return openTransfer(s, f, s.files.list)
	}
}

func (s *supervisor) add(id uint32, h handler) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests[id] != nil || s.kept[id] != nil {
		return fmt.Errorf("%w: request id %d is in use", frame.ErrProtocol, id)
	}
	if len(s.requests) >= maxRequests {
		return fmt.Errorf("%w: more than %d open requests", frame.ErrProtocol, maxRequests)
	}
	s.requests[id] = h
	return nil
}

// closeWith forgets the request before it sends its last frames: the host may reuse the id as soon as it reads them.
func (s *supervisor) closeWith(id uint32, frames ...frame.Frame) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	s.mu.Lock()
	delete(s.requests, id)
	s.mu.Unlock()
	s.send(frames...)
}

// send ignores the error: a failure means that the host is gone, which the reading goroutine is about to notice.
func (s *supervisor) send(frames ...frame.Frame) { _ = s.out.Send(frames...) }

func (s *supervisor) fail(id uint32, err error) {
	s.closeWith(id, frame.Frame{Type: frame.Fail, ID: id, Payload: frame.Encode(describe(err))})
}

func (s *supervisor) request(id uint32) handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[id]
}

func (s *supervisor) keep(c *command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[c.id] = c
}

// command returns a command that is running or kept.
func (s *supervisor) command(id uint32) *command {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.kept[id]; c != nil {
		return c
	}
	c, _ := s.requests[id].(*command)
	return c
}

func (s *supervisor) forget(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.kept[id]
	if _, open := s.requests[id]; open || c == nil {
		return
	}
	delete(s.kept, id)
	s.spawner.release(c.child.tag)
}
