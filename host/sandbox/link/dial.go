package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// errManyDialed is the error of Dial beyond frame.MaxDialed.
var errManyDialed = fmt.Errorf("more than %d connections to programs in this sandbox are open", frame.MaxDialed)

// Dial connects to a TCP port of the loopback interface inside. The error is machine.ErrNotFound if nothing listens there, and
// machine.ErrOutside for a port of the supervisor. The connection outlives ctx; it ends when either side closes it, or with the link.
func (l *Link) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.dialed.Add(1) > frame.MaxDialed {
		l.dialed.Add(-1)
		return nil, errManyDialed
	}
	c := l.newCall(endless)
	c.dialed = make(chan struct{})
	if err := l.begin(c, frame.Frame{Type: frame.Dial, Payload: frame.Encode(frame.DialBody{Port: port})}); err != nil {
		l.dialed.Add(-1)
		return nil, err
	}
	d := &dialed{call: c, port: port, out: streamReader{link: l, id: c.id, stream: frame.Out, in: c.inbox[0]}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	if err := d.await(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// dialed is a connection to a program inside, whose bytes are not trusted.
type dialed struct {
	call   *Call
	port   uint16
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	out    streamReader // for one reader, as connections have
	end    sync.Once
}

var _ net.Conn = (*dialed)(nil)

// await waits until the connection is open.
func (d *dialed) await(ctx context.Context) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-d.call.dialed:
		return nil
	case <-d.call.done:
		select {
		case <-d.call.dialed: // it was open, and the program has closed it
			return nil
		default:
		}
		return cmp.Or(d.call.answer.err, fmt.Errorf("%w: the connection ended before it began", machine.ErrUnavailable))
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		return (&flow{call: d.call}).hangs(patience)
	}
}

// Read implements net.Conn; io.EOF means that the program sends no more, or is gone.
func (d *dialed) Read(p []byte) (int, error) {
	n, err := d.out.read(d.ctx, p)
	if err == io.EOF && d.call.isOver() && d.call.answer.err != nil {
		err = d.call.answer.err
	}
	return n, d.closed(err)
}

// Write implements net.Conn. It blocks until there is credit.
func (d *dialed) Write(p []byte) (int, error) {
	n, err := d.call.link.push(d.ctx, d.call.id, d.call.credit, p)
	if errors.Is(err, frame.ErrClosed) {
		err = io.ErrClosedPipe
	}
	return n, d.closed(err)
}

// closed returns net.ErrClosed for what Close has ended.
func (d *dialed) closed(err error) error {
	if err != nil && d.ctx.Err() != nil {
		return net.ErrClosed
	}
	return err
}

// Close implements net.Conn. It returns when the supervisor has closed its end.
func (d *dialed) Close() error {
	d.end.Do(func() {
		d.cancel()
		(&flow{call: d.call}).close()
		d.call.link.dialed.Add(-1)
	})
	return nil
}

// Addresses have no meaning on the host.
type insideAddr uint16

// Network implements net.Addr.
func (insideAddr) Network() string { return "sandbox" }

// String implements net.Addr.
func (a insideAddr) String() string { return fmt.Sprintf("sandbox:%d", uint16(a)) }

// LocalAddr implements net.Conn.
func (d *dialed) LocalAddr() net.Addr { return insideAddr(0) }

// RemoteAddr implements net.Conn.
func (d *dialed) RemoteAddr() net.Addr { return insideAddr(d.port) }

// SetDeadline implements net.Conn: there are none.
func (d *dialed) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline implements net.Conn.
func (d *dialed) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline implements net.Conn.
func (d *dialed) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// Listening returns the TCP ports on which programs inside can be reached over loopback, and whether there are more.
func (l *Link) Listening(ctx context.Context) (ports []uint16, more bool, err error) {
	var reply frame.ListenReply
	err = l.transfer(ctx, request{typ: frame.Listen, body: struct{}{}, reply: &reply})
	if err == nil {
		err = l.checked(reply.Check())
	}
	return reply.Ports, reply.More, err
}
