// Package link is the host's end of the connection to a supervisor. Frames from a sandbox are hostile. The package turns them into
// commands, files and connections, each with bounded memory, flow control and a deadline, in the types of package machine. A violation of
// the protocol ends the link, and the container's owner must handle that.
//
// Start with Link. Greet or Adopt precede it, on the bare stream. Serve is its one goroutine, which delivers without blocking. A Call
// (call.go) is an open request. Commands are in command.go, with live streams in live.go and their results in result.go. File requests are
// in files.go, file.go and records.go, on top of flow.go: bytes in both directions, then a reply. Connections of programs inside are in
// connection.go, and those to programs inside in dial.go.
//
// The package knows nothing of containers, sessions or engines. It does not verify where a supervisor runs, and it does not decide about a
// container in which a command survives: package sandbox does.
package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// writeTimeout bounds one write to the container. The supervisor always reads, so a write that takes longer means that the container or its
// engine hangs.
const writeTimeout = 15 * time.Second

// Stream carries the frames to write; a frame.Reader reads the same stream.
type Stream interface {
	io.WriteCloser
	SetWriteDeadline(t time.Time) error
}

// Config configures a Link.
type Config struct {
	Stream Stream
	// Lost returns, in words for people, why the stream has ended by itself. It may take seconds. If it is nil, the reason is that the
	// container ended.
	Lost func() error
	// Hung returns why the supervisor does not answer, or nil. It may take seconds. It may be nil.
	Hung func() error
	// Handlers handle the connections of programs inside. A connection of any other kind is a protocol violation.
	Handlers map[frame.ConnectKind]Handler
}

// Link exchanges frames with one supervisor. A violation of the protocol ends the link.
type Link struct {
	stream Stream
	out    *frame.Writer
	done   chan struct{} // closed when the reading goroutine has ended

	connections *connections // nil if there are no handlers
	lost        func() error
	hung        func() error
	dialed      atomic.Int64 // connections to programs, until the supervisor has closed them

	mu    sync.Mutex
	calls map[uint32]*Call
	next  uint32
	err   error // why the link is closed
}

// New returns a link, which works once Serve runs.
func New(c Config) *Link {
	l := &Link{
		stream: c.Stream,
		out:    frame.NewWriter(deadlineWriter{c.Stream}),
		done:   make(chan struct{}),
		lost:   c.Lost,
		hung:   c.Hung,
		calls:  make(map[uint32]*Call),
	}
	if l.hung == nil {
		l.hung = func() error { return nil }
	}
	if l.lost == nil {
		l.lost = func() error { return errors.New("its container ended") }
	}
	if len(c.Handlers) > 0 {
		l.connections = newConnections(l, c.Handlers)
	}
	return l
}

// deadlineWriter sets a deadline for every write.
type deadlineWriter struct{ stream Stream }

func (w deadlineWriter) Write(p []byte) (int, error) {
	if err := w.stream.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.stream.Write(p)
}

// Greet exchanges hello and welcome before Serve. It has no deadline; closing the stream ends it. The caller must verify the welcome.
func Greet(stream Stream, reader *frame.Reader, hello frame.HelloBody) (frame.WelcomeBody, error) {
	var welcome frame.WelcomeBody
	out := frame.NewWriter(deadlineWriter{stream})
	if err := out.Send(frame.Frame{Type: frame.Hello, Payload: frame.Encode(hello)}); err != nil {
		return welcome, err
	}
	f, err := reader.Next()
	if err != nil {
		return welcome, err
	}
	if f.Type != frame.Welcome {
		return welcome, fmt.Errorf("%w: frame type %d instead of a welcome", frame.ErrProtocol, f.Type)
	}
	return welcome, frame.Decode(f.Payload, &welcome)
}

// Serve delivers frames until the stream ends, then fails all open requests.
func (l *Link) Serve(reader *frame.Reader) {
	defer close(l.done)
	defer l.connections.end()
	for {
		f, err := reader.Next()
		if err == nil {
			err = l.deliver(f)
		}
		if err != nil {
			l.Fail(err)
			return
		}
	}
}

// Done is closed when the link and Serve have ended.
func (l *Link) Done() <-chan struct{} { return l.done }

// Dead reports whether the link is closed.
func (l *Link) Dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}

// Err returns why the link is closed, or nil.
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close ends the link and waits for its goroutine. Serve must have been called.
func (l *Link) Close(reason error) {
	l.Fail(reason)
	<-l.done
}

// Fail closes the link for a reason; only the first call counts.
func (l *Link) Fail(reason error) {
	switch {
	case l.Dead():
	case isEnd(reason):
		reason = l.lost()
	case errors.Is(reason, os.ErrDeadlineExceeded): // the peer does not read any more
		reason = l.unanswered(reason)
	}
	l.mu.Lock()
	if l.err == nil {
		l.err = fmt.Errorf("%w: connection to the sandbox is lost: %w", machine.ErrUnavailable, reason)
	}
	open := l.calls
	l.calls = nil
	l.mu.Unlock()
	for _, c := range open {
		c.finish(answer{err: l.err})
	}
	l.stream.Close()
}

// unanswered adds why the supervisor does not answer, if that is known.
func (l *Link) unanswered(reason error) error {
	if why := l.hung(); why != nil {
		return fmt.Errorf("%w: %w", reason, why)
	}
	return reason
}

// isEnd reports whether err only means that the other side, or what carries the stream, is gone.
func isEnd(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// checked ends the link if err is a protocol violation.
func (l *Link) checked(err error) error {
	if errors.Is(err, frame.ErrProtocol) {
		l.Fail(err)
		return fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	return err
}

// Renew sets how long background commands outlive the host from now on. A failure closes the link.
func (l *Link) Renew(r frame.RenewBody) {
	_ = l.send(frame.Frame{Type: frame.Renew, Payload: frame.Encode(r)})
}

// Pause makes the supervisor stop or resume the processes inside. A failure closes the link.
func (l *Link) Pause(on bool) {
	_ = l.send(frame.Frame{Type: frame.Pause, Payload: frame.Encode(frame.PauseBody{On: on})})
}

func (l *Link) deliver(f frame.Frame) error {
	if frame.IsConnection(f.ID) {
		return l.connections.deliver(f)
	}
	c := l.call(f.ID)
	if c == nil {
		return fmt.Errorf("%w: frame type %d for request %d, which is not open", frame.ErrProtocol, f.Type, f.ID)
	}
	switch f.Type {
	case frame.Data:
		return c.receive(f.Stream, f.Payload)
	case frame.Credit:
		if f.Stream != frame.In {
			return fmt.Errorf("%w: credit for stream %d", frame.ErrProtocol, f.Stream)
		}
		return c.credit.Grant(f.Payload)
	case frame.Started:
		return c.start(f.Payload)
	case frame.Dialed:
		return c.connected()
	case frame.Exit, frame.Reply, frame.Fail:
		a, err := c.decode(f)
		if err != nil {
			return err
		}
		if l.forget(f.ID) {
			c.finish(a)
		}
		return nil
	}
	return fmt.Errorf("%w: unexpected frame type %d", frame.ErrProtocol, f.Type)
}

// maxOpenCalls is below the supervisor's own limit.
const maxOpenCalls = 500

// begin opens a call and sends its first frame, after setting its id.
func (l *Link) begin(c *Call, first frame.Frame) error {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return l.err
	}
	if len(l.calls) >= maxOpenCalls {
		l.mu.Unlock()
		return fmt.Errorf("more than %d requests are open in this sandbox", maxOpenCalls)
	}
	c.id = l.freeID()
	l.calls[c.id] = c
	l.mu.Unlock()
	first.ID = c.id
	if err := l.send(first); err != nil {
		return err
	}
	c.begun.Store(true)
	return nil
}

// freeID returns the next id that is not in use. l.mu is held.
func (l *Link) freeID() uint32 {
	for {
		l.next++
		if l.next != 0 && !frame.IsConnection(l.next) && l.calls[l.next] == nil {
			return l.next
		}
	}
}

// send writes frames; a failure closes the link, because part of a frame may have been sent.
func (l *Link) send(frames ...frame.Frame) error {
	if err := l.out.Send(frames...); err != nil {
		l.Fail(err)
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.err
	}
	return nil
}

func (l *Link) call(id uint32) *Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[id]
}

// forget reports whether the call was still open; otherwise Fail has finished it.
func (l *Link) forget(id uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, open := l.calls[id]
	delete(l.calls, id)
	return open
}
