//go:build linux

package supervise

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

const (
	// clientPatience bounds one write to a program that does not read.
	clientPatience = time.Minute
	// lingerTime is how long a program may take to close the connection after the host has. If unread bytes of the program were left, the
	// kernel would discard the end of the answer.
	lingerTime = 2 * time.Second
)

// client is one connection to the proxy. It ends when the host ends it, and the host is told when the program closes its side.
type client struct {
	o      *outlet
	id     uint32
	socket *os.File
	in     *frame.Inbox      // from the host
	window *frame.SendWindow // to the host
	sent   chan struct{}     // closed when the program's side has ended
	gone   atomic.Bool       // the host is gone
}

// drop records that the host has ended the connection: earlier data is still written.
func (c *client) drop() {
	c.window.Close()
	c.in.End()
}

// cut ends the connection at once, because there is no host any more.
func (c *client) cut() {
	c.drop()
	c.gone.Store(true) // no other deadline is set from now on
	_ = c.socket.SetDeadline(time.Unix(1, 0))
}

// run copies in both directions until the host ends the connection.
func (c *client) run() {
	defer c.o.count(-1)
	defer func() { <-c.o.slots }()
	defer c.socket.Close()
	go c.carryOut()
	c.carryIn()
	endWriting(c.socket)
	_ = c.socket.SetReadDeadline(time.Now().Add(lingerTime))
	if c.gone.Load() {
		c.cut()
	}
	<-c.sent
}

// carryIn writes what the host sends. If the program is gone, the host is told, and gets credit until it ends the connection, so that it
// never blocks.
func (c *client) carryIn() {
	broken := false
	for {
		p, credit, ended, err := c.in.Wait(c.o.s.ctx)
		if err != nil {
			return
		}
		if len(p) > 0 && !broken {
			_ = c.socket.SetWriteDeadline(time.Now().Add(clientPatience))
			if c.gone.Load() {
				broken = true
			} else if _, err := c.socket.Write(p); err != nil {
				broken = true
				c.send(frame.Drop, 0, nil)
			}
		}
		if ended {
			return
		}
		if credit != nil {
			c.send(frame.Credit, frame.In, credit)
		}
	}
}

// carryOut reads what the program sends. Once the host has ended the connection the rest is discarded.
func (c *client) carryOut() {
	defer close(c.sent)
	buf := buffers.Get().(*[pumpBuffer]byte)
	defer buffers.Put(buf)
	for {
		n, err := c.socket.Read(buf[:])
		for p := buf[:n]; len(p) > 0; {
			taken, refused := c.window.Take(c.o.s.ctx, len(p))
			if refused != nil {
				break
			}
			c.send(frame.Data, frame.Out, p[:taken])
			p = p[taken:]
		}
		if errors.Is(err, io.EOF) {
			c.send(frame.End, frame.Out, nil)
			return
		}
		if err != nil {
			c.send(frame.Drop, 0, nil)
			return
		}
	}
}

func (c *client) send(t frame.Type, stream uint8, payload []byte) {
	c.o.s.send(frame.Frame{Type: t, Stream: stream, ID: c.id, Payload: payload})
}

// endWriting tells the program that no more data will come.
func endWriting(socket *os.File) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
}
