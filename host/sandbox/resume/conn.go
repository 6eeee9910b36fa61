package resume

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// After the hello both ends send records: 1 byte kind, 3 bytes length, then the payload.
const (
	kindData  = 1 // the next bytes of the stream
	kindAck   = 2 // 8 bytes: how many bytes of the stream the sender has received; also sent when there is nothing else to send
	kindClose = 3 // empty: the sender has closed the stream
)

const (
	headSize = 4
	ackSize  = 8
	// maxData bounds the payload of one record.
	maxData    = 64 << 10
	connBuffer = 4 << 10
	// idleBuffer is the largest buffer that a connection with nothing to send keeps.
	idleBuffer = 16 << 10
)

// conn is one connection of a stream. The stream's one reader uses in and left; the stream's lock guards what follows.
type conn struct {
	net.Conn
	raw  *records // below TLS
	in   *bufio.Reader
	left int // bytes of the present data record that were not read yet

	out     []byte // belongs to the goroutine that is sending
	sent    uint64 // the offset up to which the stream was sent
	sending bool   // a goroutine is sending
	ack     bool   // an acknowledgement is due
	closing bool   // the close is due
}

func newConn(c net.Conn, raw *records) *conn {
	return &conn{Conn: c, raw: raw, in: bufio.NewReaderSize(c, connBuffer)}
}

// Close closes the connection at once. The close of a stream is a record, so nobody needs that of TLS, which may block.
func (c *conn) Close() error { return c.raw.Close() }

// next reads the head of a record, and the payload unless it is data.
func (c *conn) next(silence time.Duration) (kind byte, payload uint64, err error) {
	if err := c.await(silence); err != nil {
		return 0, 0, err
	}
	var p [ackSize]byte
	if _, err := io.ReadFull(c.in, p[:headSize]); err != nil {
		return 0, 0, err
	}
	kind = p[0]
	size := int(binary.BigEndian.Uint32(p[:]) & 0xffffff)
	switch {
	case kind == kindData && size > 0 && size <= maxData:
		c.left = size
		return kind, 0, nil
	case kind == kindAck && size == ackSize:
		_, err = io.ReadFull(c.in, p[:])
		return kind, binary.BigEndian.Uint64(p[:]), err
	case kind == kindClose && size == 0:
		return kind, 0, nil
	}
	return 0, 0, fmt.Errorf("%w: record of kind %d with %d bytes", errProtocol, kind, size)
}

// data reads bytes of the present data record.
func (c *conn) data(p []byte, silence time.Duration) (int, error) {
	if err := c.await(silence); err != nil {
		return 0, err
	}
	n, err := c.in.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// await sets the deadline of the next bytes, unless some are there.
func (c *conn) await(silence time.Duration) error {
	if c.in.Buffered() > 0 {
		return nil
	}
	return c.SetReadDeadline(time.Now().Add(silence))
}

// quiet reports whether everything that has arrived was read, and returns the descriptor that becomes readable with more.
func (c *conn) quiet() (fd int, ok bool) {
	if c.left > 0 || c.in.Buffered() > 0 {
		return -1, false
	}
	return c.raw.quiet()
}

// write writes out.
func (c *conn) write(patience time.Duration) error {
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := c.Write(c.out)
	return err
}

// compose fills out with what is due, and reports whether that is anything. The stream's lock is held.
func (c *conn) compose(s *Stream) bool {
	c.out = c.out[:0]
	if c.ack {
		c.ack, s.told = false, s.received
		c.out = binary.BigEndian.AppendUint64(head(c.out, kindAck, ackSize), s.received)
	}
	if n := min(int(s.out.to-c.sent), maxData); n > 0 {
		c.out = s.out.appendFrom(head(c.out, kindData, n), c.sent, n)
		c.sent += uint64(n)
	} else if c.closing {
		c.closing = false
		c.out = head(c.out, kindClose, 0)
	}
	if len(c.out) == 0 && cap(c.out) > idleBuffer {
		c.out = nil
	}
	return len(c.out) > 0
}

func head(dst []byte, kind byte, size int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(kind)<<24|uint32(size))
}
