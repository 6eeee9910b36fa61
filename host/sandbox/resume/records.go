package resume

import (
	"bufio"
	"encoding/binary"
	"net"
	"syscall"
)

// records is a connection below TLS. It hands over no more than one record of TLS at a time, so that it is known whether another one has
// arrived: TLS itself reads ahead and does not tell.
type records struct {
	net.Conn
	in   *bufio.Reader
	left int // bytes of the present record
	fd   int // or -1
}

// recordHead is the size of the head of a TLS record; its last two bytes are the length of the rest (RFC 8446, 5.1).
const recordHead = 5

func newRecords(c net.Conn) *records {
	r := &records{Conn: c, in: bufio.NewReaderSize(c, connBuffer), fd: -1}
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { r.fd = int(fd) })
		}
	}
	return r
}

func (r *records) Read(p []byte) (int, error) {
	if r.left == 0 {
		head, err := r.in.Peek(recordHead)
		if err != nil {
			return 0, err
		}
		r.left = recordHead + int(binary.BigEndian.Uint16(head[3:]))
	}
	n, err := r.in.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

func (r *records) quiet() (fd int, ok bool) {
	return r.fd, r.fd >= 0 && r.left == 0 && r.in.Buffered() == 0
}
