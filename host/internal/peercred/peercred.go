// Package peercred returns who is at the other end of a Unix socket, as the kernel says. Start with UID and PID. Of connections over a
// network nothing is known.
package peercred

import (
	"errors"
	"fmt"
	"net"
)

// ErrUnsupported means that this system does not tell.
var ErrUnsupported = errors.New("not supported on this system")

// UID returns the user id of the other end at the time of its connection.
func UID(conn net.Conn) (uid uint32, err error) {
	err = ask(conn, func(fd int) (err error) {
		uid, err = peerUID(fd)
		return err
	})
	return uid, err
}

// PID returns the process id of the other end at the time of its connection.
func PID(conn net.Conn) (pid int, err error) {
	err = ask(conn, func(fd int) (err error) {
		pid, err = peerPID(fd)
		return err
	})
	return pid, err
}

func ask(conn net.Conn, about func(fd int) error) error {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("ask for the peer of a %s connection: %w", conn.LocalAddr().Network(), ErrUnsupported)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = about(int(fd)) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("ask for the peer of a socket: %w", failed)
	}
	return nil
}
