package resume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Stream is one end of a stream. One goroutine may read and another one write at the same time; Close may be called at any time. Reading
// must not depend on writing: the peer's acknowledgements arrive by Read.
type Stream struct {
	session  session
	epoch    uint64
	timeouts Timeouts

	ctx    context.Context // ends with the stream
	cancel context.CancelFunc
	wake   chan struct{} // something other than data is due
	cut    chan struct{} // there is no connection any more
	work   sync.WaitGroup

	mu       sync.Mutex
	changed  sync.Cond // signals changes of conn, err, the room in out, and of a connection's sending
	conn     *conn     // nil while there is none
	attempt  int       // the number of the last connection that was begun
	out      backlog
	received uint64      // bytes that Read has returned
	told     uint64      // of these, those that were acknowledged
	lost     *time.Timer // ends the stream
	waiting  bool        // lost runs, until the peer is heard
	err      error       // why the stream is over
}

const (
	// ackEvery is how many bytes are received before they are acknowledged at once instead of with the next beat.
	ackEvery = maxBacklog / 8
	// closeTimeout bounds telling the peer that the stream is closed.
	closeTimeout = time.Second
)

func newStream(name session, epoch uint64, t Timeouts) *Stream {
	s := &Stream{session: name, epoch: epoch, timeouts: t, wake: make(chan struct{}, 1), cut: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.changed.L = &s.mu
	s.lost = time.AfterFunc(t.Patience, func() {
		s.end(fmt.Errorf("%w: no connection for %v", os.ErrDeadlineExceeded, t.Patience))
	})
	s.lost.Stop()
	s.work.Go(s.beat)
	return s
}

// Read implements io.Reader. At the end of the stream it returns io.EOF if the peer has closed it.
func (s *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		c, err := s.current()
		if err != nil {
			return 0, err
		}
		n := 0
		if c.left == 0 {
			var kind byte
			var payload uint64
			if kind, payload, err = c.next(s.timeouts.Silence); err == nil {
				err = s.heard(c, kind, payload)
			}
		} else {
			n, err = c.data(p, s.timeouts.Silence)
		}
		if n = s.take(c, n, err); n > 0 {
			return n, nil
		}
	}
}

// current waits for a connection.
func (s *Stream) current() (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.conn == nil && s.err == nil {
		s.changed.Wait()
	}
	return s.conn, s.err
}

// heard handles a record of the peer.
func (s *Stream) heard(c *conn, kind byte, payload uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return nil
	}
	s.waiting = false
	s.lost.Stop()
	switch kind {
	case kindClose:
		s.finish(io.EOF)
	case kindAck:
		if payload < s.out.from || payload > c.sent {
			return fmt.Errorf("%w: peer acknowledges %d bytes of %d to %d", errProtocol, payload, s.out.from, c.sent)
		}
		s.out.drop(payload)
		s.changed.Broadcast()
	}
	return nil
}

// take counts bytes that were read from a connection, and returns how many of them belong to the stream: none if another connection has
// replaced that one, over which they come again.
func (s *Stream) take(c *conn, n int, err error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return 0
	}
	s.received += uint64(n)
	if s.received-s.told >= ackEvery && !c.ack {
		c.ack = true
		s.poke()
	}
	switch {
	case errors.Is(err, frame.ErrProtocol):
		s.finish(err)
	case err != nil:
		s.drop(c)
	}
	return n
}

// Write implements io.Writer. Written bytes reach the peer, also over a later connection, unless the stream ends before. It waits while too
// much is on its way.
func (s *Stream) Write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.err != nil {
			return n, s.failure()
		}
		n += s.out.add(p[n:])
		if s.conn != nil {
			s.send(s.conn)
		}
		if n == len(p) {
			return n, nil
		}
		s.awaitRoom()
	}
}

// awaitRoom waits until the peer acknowledges something, or the stream is over. s.mu is held.
func (s *Stream) awaitRoom() {
	stuck := time.AfterFunc(s.timeouts.Patience, func() {
		s.end(fmt.Errorf("%w: the peer has taken nothing for %v", os.ErrDeadlineExceeded, s.timeouts.Patience))
	})
	defer stuck.Stop()
	for s.out.len() == maxBacklog && s.err == nil {
		s.changed.Wait()
	}
}

// SetWriteDeadline does nothing: a write waits for room as long as a stream waits for a connection, and then the stream ends.
func (s *Stream) SetWriteDeadline(time.Time) error { return nil }

// failure is the error of writing to a stream that is over. s.mu is held.
func (s *Stream) failure() error {
	if s.err == io.EOF {
		return io.ErrClosedPipe
	}
	return s.err
}

// send sends what is due, unless another goroutine does. s.mu is held, but not while it writes.
func (s *Stream) send(c *conn) {
	if c.sending {
		return
	}
	c.sending = true
	for s.conn == c && c.compose(s) {
		s.mu.Unlock()
		err := c.write(s.timeouts.Silence)
		s.mu.Lock()
		if err != nil {
			s.drop(c)
		}
	}
	c.sending = false
	s.changed.Broadcast()
}

// beat sends what is due besides data, and from time to time something that shows the peer that we are there.
func (s *Stream) beat() {
	clock := time.NewTicker(s.timeouts.Beat)
	defer clock.Stop()
	for {
		late := false
		select {
		case <-s.ctx.Done():
			return
		case <-clock.C:
			late = true
		case <-s.wake:
		}
		s.mu.Lock()
		if c := s.conn; c != nil {
			c.ack = c.ack || late
			s.send(c)
		}
		s.mu.Unlock()
	}
}

// poke wakes beat.
func (s *Stream) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Quiet reports whether everything that has arrived was read, and returns a descriptor that becomes readable when more arrives. Only the
// goroutine that reads may call it.
func (s *Stream) Quiet() (fd int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return -1, false
	}
	return s.conn.quiet()
}
