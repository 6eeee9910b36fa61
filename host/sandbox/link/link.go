// Package link is the host's end of the line to a supervisor. Frames from a sandbox are hostile. Here they become commands,
// files and connections: each with bounded room, credit and a deadline, and in the words of package machine. A breach of the protocol ends the link, which the maker of the
// container has to notice.
//
// Start with Link. Greet or Adopt comes before it, on the bare stream. Serve is its one goroutine, which delivers and never
// waits. A Call (call.go) is a request that is open. Commands are in command.go, with live streams in live.go and their results in
// result.go. File requests are in files.go, file.go and records.go, above flow.go: bytes both ways, then a reply. Connections of programs
// inside are in connection.go.
//
// The package knows nothing of containers, sessions or engines. Whether a supervisor is where it should be, what is asked of it,
// and package sandbox decides about a container that leaves a command alive.
package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// writeTimeout bounds one write to the container. The supervisor always reads, so a write that
// takes longer means that the container or its engine hangs.
const writeTimeout = 15 * time.Second

// Stream is where frames are written; a frame.Reader reads the same stream.
type Stream interface {
	io.WriteCloser
	SetWriteDeadline(t time.Time) error
}

// Config is what a Link needs.
type Config struct {
	Stream Stream
	// Lost says why the stream has ended by itself, in words for people. It may take seconds. nil: the container ended
	Lost func() error
	// Hung says why the supervisor does not answer, or nil. It may take seconds. nil: nobody knows
	Hung func() error
	// Handlers answer the connections of programs inside. One of a kind that is not among them is a breach.
	Handlers map[frame.ConnectKind]Handler
}

// Link speaks frames with one supervisor. Everything that it reads is hostile until checked: a breach of
// the protocol ends the link.
type Link struct {
	stream Stream
	out    *frame.Writer
	done   chan struct{} // closed when the reading goroutine is gone

	connections *connections // or nil, where there are no handlers
	lost        func() error
	hung        func() error

	mu    sync.Mutex
	calls map[uint32]*Call
	next  uint32
	err   error // why the link is closed
}

// New returns a link. It is of use once Serve runs.
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

// deadlineWriter gives every write its deadline.
type deadlineWriter struct{ stream Stream }

func (w deadlineWriter) Write(p []byte) (int, error) {
	if err := w.stream.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.stream.Write(p)
}

// Greet exchanges hello and welcome; it comes before Serve and has no deadline, so the caller closes
// the stream to end it. Nothing of the welcome is believed.
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

// Serve delivers frames until the stream ends, then fails what is still open.
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

// Done is closed when the link has ended and Serve with it.
func (l *Link) Done() <-chan struct{} { return l.done }

// Dead reports whether the link is closed.
func (l *Link) Dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}

// Close ends the link and waits for its goroutine. Serve must have been called.
func (l *Link) Close(reason error) {
	l.Fail(reason)
	<-l.done
}

// Fail closes the link for the reason given; only the first one counts.
func (l *Link) Fail(reason error) {
	switch {
	case l.Dead():
	case isEnd(reason):
		reason = l.lost()
	case errors.Is(reason, os.ErrDeadlineExceeded): // it reads nothing any more
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

// unanswered adds why the supervisor does not answer, where that is known.
func (l *Link) unanswered(reason error) error {
	if why := l.hung(); why != nil {
		return fmt.Errorf("%w: %w", reason, why)
	}
	return reason
}

// isEnd reports whether err is only that the other side, or what carries the stream, is gone.
func isEnd(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// checked ends the link when err is a breach of the protocol.
func (l *Link) checked(err error) error {
	if errors.Is(err, frame.ErrProtocol) {
		l.Fail(err)
		return fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	return err
}

// Renew tells the supervisor how long background commands are to outlast the host from now on. A failure closes the link.
func (l *Link) Renew(lease time.Duration) {
	_ = l.send(frame.Frame{Type: frame.Renew, Payload: frame.Encode(frame.RenewBody{Lease: lease})})
}

// Pause has the supervisor stop what runs inside, or let it go on. A failure closes the link.
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

// maxOpenCalls stays below what the supervisor accepts.
const maxOpenCalls = 500

// begin opens a call and sends its first frame, whose id is filled in.
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

// freeID counts up and skips what is still open. l.mu is held.
func (l *Link) freeID() uint32 {
	for {
		l.next++
		if l.next != 0 && !frame.IsConnection(l.next) && l.calls[l.next] == nil {
			return l.next
		}
	}
}

// send writes frames; a failure closes the link, because half a frame may be out.
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

// forget reports whether the call was still open; if not, Fail has finished it.
func (l *Link) forget(id uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, open := l.calls[id]
	delete(l.calls, id)
	return open
}
