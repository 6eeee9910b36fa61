package within

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// most is how many descriptors come with a request at most.
const most = 16

// Serve starts processes for the host at the other end of SocketFD until that is closed. Processes that it has started live on.
func Serve() error {
	unix.CloseOnExec(SocketFD)
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
		fds, err := descriptors(rights[:m])
		if err != nil || len(fds) == 0 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			return errors.New("receive a request: it is cut")
		}
		var r Request
		if err := json.Unmarshal(message[:n], &r); err != nil {
			return fmt.Errorf("receive a request: %w", err)
		}
		go r.answer(fds)
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

// answer starts the process of a request, tells the host, and reaps it.
func (r Request) answer(fds []int) {
	pid, err := r.run(fds[1:])
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
	_ = unix.Sendmsg(fds[0], text, rights, nil, 0) // a host that is gone finds the process by its record, or never knew it
	for _, fd := range fds {
		unix.Close(fd)
	}
	if pid > 0 {
		reap(pid, handle)
	}
}

// run starts the process with the descriptors of the request, but its socket.
func (r Request) run(fds []int) (pid int, err error) {
	folder := -1
	if r.Folder && len(fds) > 0 {
		folder, fds = fds[len(fds)-1], fds[:len(fds)-1]
	}
	if len(fds) != streams+r.Members {
		return 0, fmt.Errorf("the request has %d descriptors", len(fds))
	}
	return r.Config.start(fds[:streams], fds[streams:], folder)
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
