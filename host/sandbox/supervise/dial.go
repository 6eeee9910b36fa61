//go:build linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// dialTimeout bounds a connect; a program that does not accept any more leaves it unanswered.
const dialTimeout = 5 * time.Second

// openDial begins a connection of the host to a program inside. As it may last for long, it holds none of the places of transfers.
func (s *supervisor) openDial(f frame.Frame) error {
	var b frame.DialBody
	if err := frame.Decode(f.Payload, &b); err != nil {
		return err
	}
	t := newTransfer(s, f.ID)
	if err := s.add(f.ID, t); err != nil {
		return err
	}
	go s.dial(t, int(b.Port))
	return nil
}

func (s *supervisor) dial(t *transfer, port int) {
	defer t.cancel()
	defer s.dialed.Add(-1)
	if s.dialed.Add(1) > frame.MaxDialed {
		s.fail(t.id, fmt.Errorf("more than %d connections to programs are open", frame.MaxDialed))
		return
	}
	socket, err := s.reach(port)
	if err != nil {
		s.fail(t.id, err)
		return
	}
	s.send(frame.Frame{Type: frame.Dialed, ID: t.id})
	t.carry(socket)
	s.closeWith(t.id, frame.Frame{Type: frame.Reply, ID: t.id, Payload: []byte("{}")})
}

// reach connects to a port of the loopback interface, which belongs to the container.
func (s *supervisor) reach(port int) (*os.File, error) {
	if port == 0 || s.isOwnPort(port) {
		return nil, fail(frame.Outside, fmt.Sprintf("port %d is not a program's", port))
	}
	socket, err := connect(unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if errors.Is(err, unix.ECONNREFUSED) {
		var six error
		if socket, six = connect(unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}); six == nil {
			err = nil
		}
	}
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return nil, fail(frame.NotFound, fmt.Sprintf("nothing listens on port %d", port))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("the program on port %d accepts no connection", port)
	}
	return socket, err
}

// isOwnPort reports whether the supervisor itself listens on a port.
func (s *supervisor) isOwnPort(port int) bool { return s.hello.Proxy && port == proxyPort }

// connect is net.Dial without package net; see dial.
func connect(family int, address unix.Sockaddr) (*os.File, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, address); err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return nil, err
	}
	socket := os.NewFile(uintptr(fd), "dialed")
	if err := awaitConnected(socket); err != nil {
		socket.Close()
		return nil, err
	}
	return socket, nil
}

func awaitConnected(socket *os.File) error {
	raw, err := socket.SyscallConn()
	if err == nil {
		err = socket.SetWriteDeadline(time.Now().Add(dialTimeout))
	}
	if err != nil {
		return err
	}
	var failure error
	err = raw.Write(func(fd uintptr) bool {
		peer, unconnected := unix.Getpeername(int(fd))
		if unconnected == nil {
			failure = notItself(int(fd), peer)
			return true
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if failure = err; code != 0 {
			failure = unix.Errno(code)
		}
		return failure != nil
	})
	return errors.Join(err, failure, socket.SetWriteDeadline(time.Time{}))
}

// notItself refuses a socket that is its own peer: without a listener, a port that the kernel chose for this end can meet itself.
func notItself(fd int, peer unix.Sockaddr) error {
	here, err := unix.Getsockname(fd)
	if err == nil && portOf(here) == portOf(peer) {
		return unix.ECONNREFUSED
	}
	return err
}

func portOf(address unix.Sockaddr) int {
	switch a := address.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return 0
}

// carry copies in both directions until the program ends its side, or the host cancels the request.
func (t *transfer) carry(socket *os.File) {
	stop := context.AfterFunc(t.ctx, func() { socket.Close() })
	var sending sync.WaitGroup
	sending.Go(func() { t.carryIn(socket) })
	t.carryOut(socket)
	t.cancel()
	sending.Wait()
	if stop() {
		socket.Close()
	}
}

// carryIn writes what the host sends. Once the program reads no more the rest is discarded: its answer may still come.
func (t *transfer) carryIn(socket *os.File) {
	broken := false
	for {
		p, credit, ended, err := t.in.Wait(t.ctx)
		if err != nil {
			return
		}
		if len(p) > 0 && !broken {
			_ = socket.SetWriteDeadline(time.Now().Add(clientPatience))
			_, err := socket.Write(p)
			broken = err != nil
		}
		if ended {
			endWriting(socket)
			return
		}
		if credit != nil {
			t.s.send(frame.Frame{Type: frame.Credit, Stream: frame.In, ID: t.id, Payload: credit})
		}
	}
}

// carryOut sends what the program writes, as credit allows.
func (t *transfer) carryOut(from io.Reader) {
	buf := buffers.Get().(*[pumpBuffer]byte)
	defer buffers.Put(buf)
	for {
		n, err := from.Read(buf[:])
		for p := buf[:n]; len(p) > 0; {
			taken, refused := t.window.Take(t.ctx, min(len(p), frame.MaxData))
			if refused != nil {
				return
			}
			t.s.send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: t.id, Payload: p[:taken]})
			p = p[taken:]
		}
		if err != nil {
			return
		}
	}
}
