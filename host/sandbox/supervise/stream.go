//go:build linux

package supervise

import (
	"io"
	"os"
	"sync"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// incoming is the source of the host's frames.
type incoming struct {
	*frame.Reader
	from quieter // nil if further frames cannot be detected
}

// quieter is a stream that can be checked for more without reading.
type quieter interface {
	// Quiet reports whether everything that has arrived was read, and returns the descriptor that becomes readable with more.
	Quiet() (fd int, ok bool)
}

func newIncoming(from io.Reader) *incoming {
	in := &incoming{Reader: frame.NewReader(from, frame.SupervisorSide)}
	switch s := from.(type) {
	case quieter:
		in.from = s
	case *os.File:
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { in.from = plainStream(fd) })
		}
	}
	return in
}

// plainStream is the descriptor of a stream that nothing reads ahead.
type plainStream int

func (d plainStream) Quiet() (fd int, ok bool) { return int(d), true }

// quiet reports whether nothing is read ahead, and returns the descriptor by which further frames can be detected.
func (in *incoming) quiet() (fd int, ok bool) {
	if in.from == nil || in.Buffered() > 0 {
		return -1, false
	}
	return in.from.Quiet()
}

// outgoing is the destination of frames for the host. Without one they are dropped.
type outgoing struct {
	mu   sync.Mutex
	to   *frame.Writer
	conn io.Closer
}

// newOutgoing returns one that writes to w, which is not closed.
func newOutgoing(w io.Writer) *outgoing { return &outgoing{to: frame.NewWriter(w)} }

// attach makes conn the connection to the host.
func (o *outgoing) attach(conn io.WriteCloser) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to, o.conn = frame.NewWriter(conn), conn
}

// hangUp closes the connection to the host, also while it is in use.
func (o *outgoing) hangUp() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn != nil {
		o.conn.Close()
	}
	o.to, o.conn = nil, nil
}

// Send writes frames together.
func (o *outgoing) Send(frames ...frame.Frame) error {
	o.mu.Lock()
	to := o.to
	o.mu.Unlock()
	if to == nil {
		return io.ErrClosedPipe
	}
	return to.Send(frames...)
}
