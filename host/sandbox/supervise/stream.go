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
	fd int // to check for more frames, or -1
}

func newIncoming(from io.Reader) *incoming {
	in := &incoming{frame.NewReader(from, frame.SupervisorSide), -1}
	if file, is := from.(*os.File); is {
		if raw, err := file.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { in.fd = int(fd) })
		}
	}
	return in
}

// isQuiet reports whether nothing is read ahead, and further frames can be detected.
func (in *incoming) isQuiet() bool { return in.fd >= 0 && in.Buffered() == 0 }

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
