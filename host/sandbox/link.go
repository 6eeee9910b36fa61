package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// writeTimeout bounds one write to the container. The supervisor always reads, so a write that
// takes longer means that the container or its engine hangs.
const writeTimeout = 15 * time.Second

// link speaks frames with one supervisor. Everything that it reads is hostile until checked: whatever
// the protocol does not allow ends the link, and with it the container.
type link struct {
	stream Stream
	out    *frame.Writer
	done   chan struct{} // closed when the reading goroutine is gone

	connections *connections // or nil, where there is no proxy
	why         func() error // what people are told when the stream ended by itself; may take seconds

	mu    sync.Mutex
	calls map[uint32]*call
	next  uint32
	err   error // why the link is closed
}

// newLink returns a link; serve is its goroutine, which ends when the stream does.
func newLink(stream Stream) *link {
	return &link{
		stream: stream,
		out:    frame.NewWriter(deadlineWriter{stream}),
		done:   make(chan struct{}),
		why:    func() error { return errors.New("its container ended") },
		calls:  make(map[uint32]*call),
	}
}

// deadlineWriter gives every write its deadline.
type deadlineWriter struct{ stream Stream }

func (w deadlineWriter) Write(p []byte) (int, error) {
	if err := w.stream.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.stream.Write(p)
}

// greet exchanges hello and welcome; it comes before serve and has no deadline, so the caller closes
// the stream to end it.
func greet(stream Stream, reader *frame.Reader, hello frame.HelloBody) (frame.WelcomeBody, error) {
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

// serve delivers frames until the stream ends, then fails what is still open.
func (l *link) serve(reader *frame.Reader) {
	defer close(l.done)
	defer l.connections.end()
	for {
		f, err := reader.Next()
		if err == nil {
			err = l.deliver(f)
		}
		if err != nil {
			l.fail(err)
			return
		}
	}
}

// fail closes the link for the reason given; only the first one counts.
func (l *link) fail(reason error) {
	if isEnd(reason) && !l.isDead() {
		reason = l.why()
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

// isEnd says whether err is only that the other side, or what carries the stream, is gone.
func isEnd(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

func (l *link) deliver(f frame.Frame) error {
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
		a, err := decodeAnswer(f, c)
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

// begin opens a call and sends its first frame together with any that follow at once; their ids
// are filled in.
func (l *link) begin(c *call, first frame.Frame, more ...frame.Frame) error {
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
	frames := append([]frame.Frame{first}, more...)
	for i := range frames {
		frames[i].ID = c.id
	}
	return l.send(frames...)
}

// freeID counts up and skips what is still open. l.mu is held.
func (l *link) freeID() uint32 {
	for {
		l.next++
		if l.next != 0 && !frame.IsConnection(l.next) && l.calls[l.next] == nil {
			return l.next
		}
	}
}

// send writes frames; a failure closes the link, because half a frame may be out.
func (l *link) send(frames ...frame.Frame) error {
	if err := l.out.Send(frames...); err != nil {
		l.fail(err)
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.err
	}
	return nil
}

func (l *link) call(id uint32) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[id]
}

// forget says whether the call was still open; if not, fail has finished it.
func (l *link) forget(id uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, open := l.calls[id]
	delete(l.calls, id)
	return open
}

// isDead says whether the link is closed.
func (l *link) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}

// close ends the link and waits for its goroutine. serve must have been called.
func (l *link) close(reason error) {
	l.fail(reason)
	<-l.done
}
