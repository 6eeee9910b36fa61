package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// unanswered is how long sent data may be unacknowledged, in milliseconds. The system's default is a quarter of an hour.
const unanswered = 15_000

func control(network, _ string, conn syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var set error
	if err := conn.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, unanswered)
	}); err != nil {
		return err
	}
	return set
}
