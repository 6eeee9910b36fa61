package within

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/rawfork"
)

// most is how many descriptors come with a request at most.
const most = 16

// receivers are how many requests are answered at the same time.
const receivers = 4

// Serve starts processes for the host at the other end of SocketFD until that is closed. Processes that it has started live on.
func Serve() error {
	unix.CloseOnExec(SocketFD)
	_ = os.WriteFile("/proc/self/comm", []byte("flynn-sandboxd"), 0) // by its path it would be "exe"
	proc, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /proc: %w", err)
	}
	s := &server{proc: proc, networks: make(chan *network, receivers)}
	ended := make(chan error, receivers)
	for range receivers {
		go s.receiver(ended)
	}
	return <-ended
}

// receiver answers requests, and sends why it has ended. One that spoils its thread is followed by another one.
func (s *server) receiver(ended chan<- error) {
	if err := s.receive(); err != errSpoilt {
		ended <- err
		return
	}
	go s.receiver(ended)
}

// errSpoilt means that this goroutine has to end, and its thread with it.
var errSpoilt = errors.New("the thread has another sandbox's mounts")

// server is the state of Serve.
type server struct {
	failed   error // why there can be no sandbox
	proc     int   // the host's /proc
	views    views
	networks chan *network // those that are about to be used

	mu    sync.Mutex
	spare *spare // may be nil
}

// receive answers requests.
func (s *server) receive() error {
	message, rights := make([]byte, MaxMessage), make([]byte, unix.CmsgSpace(4*most))
	for {
		n, m, flags, _, err := unix.Recvmsg(SocketFD, message, rights, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("receive a request: %w", err)
		}
		if n == 0 {
			return nil
		}
		if string(message[:n]) == Prepare {
			s.prepare()
			continue
		}
		fds, err := descriptors(rights[:m])
		if err != nil || len(fds) == 0 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			return errors.New("receive a request: it is cut")
		}
		r, err := parse(message[:n], fds)
		if err != nil {
			return fmt.Errorf("receive a request: %w", err)
		}
		if s.failed != nil {
			r.answer(0, s.failed)
			return s.failed // the host starts another one for its next request
		}
		if r.Take == 0 {
			s.start(r)
			closeAll(fds)
			continue
		}
		runtime.LockOSThread() // for ever, unless it is the first thread, which stays what it is
		if unix.Gettid() == os.Getpid() {
			done := make(chan []int)
			apart(func() { done <- s.take(r) })
			closeAll(append(fds, <-done...))
			runtime.UnlockOSThread()
			continue
		}
		go closeAll(append(fds, s.take(r)...))
		return errSpoilt
	}
}

// descriptors returns those of a message.
func descriptors(rights []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		some, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, err
		}
		fds = append(fds, some...)
	}
	return fds, nil
}

// request is a Request with its descriptors.
type request struct {
	Request
	host    int // the socket for the reply
	std     []int
	report  int
	members []int
	folder  int // or rawfork.Anywhere
}

// parse returns a request with its descriptors.
func parse(message []byte, fds []int) (*request, error) {
	r := &request{host: fds[0], folder: rawfork.Anywhere}
	fds = fds[1:]
	if err := json.Unmarshal(message, &r.Request); err != nil {
		return nil, err
	}
	if r.Folder && len(fds) > 0 {
		r.folder, fds = fds[len(fds)-1], fds[:len(fds)-1]
	}
	if r.Take > 0 && len(fds) == 0 {
		return r, nil
	}
	if len(fds) != streams+1+r.Members {
		return nil, fmt.Errorf("it has %d descriptors", len(fds))
	}
	r.std, r.report, r.members = fds[:streams], fds[streams], fds[streams+1:]
	return r, nil
}

// answer tells the host of a process, and has it reaped.
func (r *request) answer(pid int, err error) {
	handle := -1
	if err == nil {
		handle, err = unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	}
	reply, rights := Reply{PID: pid}, []byte(nil)
	if err != nil {
		reply.Error = err.Error()
		var errno syscall.Errno
		if errors.As(err, &errno) {
			reply.Errno = int(errno)
		}
	} else {
		rights = unix.UnixRights(handle)
	}
	text, _ := json.Marshal(reply)
	_ = unix.Sendmsg(r.host, text, rights, nil, 0) // a host that is gone finds the process by its record, or never knew it
	switch {
	case pid > 0 && r.Take == 0:
		go reap(pid, handle)
	case handle >= 0:
		unix.Close(handle)
	}
}

// reap waits for the end of a process, without a thread.
func reap(pid, handle int) {
	if handle >= 0 {
		AwaitEnd(os.NewFile(uintptr(handle), "process"))
	}
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}

// AwaitEnd returns once a process has ended, and closes its descriptor, which must not block (pidfd_open(2)).
func AwaitEnd(process *os.File) {
	defer process.Close()
	conn, err := process.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}
