package resume

import (
	"fmt"
	"net"
	"time"
)

// check returns an error if the peer cannot have so much of the stream. s.mu is held.
func (s *Stream) check(peerHas uint64) error {
	if peerHas < s.out.from || peerHas > s.out.to {
		return fmt.Errorf("%w: peer has %d bytes of %d to %d", errProtocol, peerHas, s.out.from, s.out.to)
	}
	return nil
}

// begin begins another connection, which ends the present one. It returns how much was received, and a number for attach.
func (s *Stream) begin() (received uint64, attempt int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beginLocked()
}

func (s *Stream) beginLocked() (received uint64, attempt int, err error) {
	if s.err != nil {
		return 0, 0, s.err
	}
	s.drop(s.conn)
	s.await()
	s.attempt++
	return s.received, s.attempt, nil
}

// resume is begin on behalf of a peer that has so much of the stream.
func (s *Stream) resume(peerHas uint64) (received uint64, attempt int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(peerHas); err != nil {
		return 0, 0, err
	}
	return s.beginLocked()
}

// attach continues over a connection whose peer has so much of the stream, unless another one was begun meanwhile.
func (s *Stream) attach(c *conn, attempt int, peerHas uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.attempt != attempt {
		return net.ErrClosed
	}
	if err := s.check(peerHas); err != nil {
		return err
	}
	s.out.drop(peerHas)
	c.sent, c.ack, s.conn = peerHas, true, c // the acknowledgement shows the peer that the connection works
	s.await()
	s.changed.Broadcast()
	s.poke()
	return nil
}

// await ends the stream unless the peer is heard in time. s.mu is held.
func (s *Stream) await() {
	if !s.waiting {
		s.waiting = true
		s.lost.Reset(s.timeouts.Patience)
	}
}

// drop gives up a connection, if it is the present one. s.mu is held.
func (s *Stream) drop(c *conn) {
	if c == nil || s.conn != c {
		return
	}
	c.Close()
	s.conn = nil
	s.await()
	select {
	case s.cut <- struct{}{}:
	default:
	}
	s.changed.Broadcast()
}

// finish ends the stream. s.mu is held.
func (s *Stream) finish(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	s.lost.Stop()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
	s.cancel()
	s.changed.Broadcast()
}

// end is finish without the lock.
func (s *Stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(err)
}

// Close ends the stream, and tells the peer if there is a connection.
func (s *Stream) Close() error {
	s.mu.Lock()
	if c := s.conn; c != nil {
		late := time.AfterFunc(closeTimeout, func() { c.Close() })
		c.closing = true
		s.send(c)
		for c.sending && s.conn == c { // another goroutine sends it
			s.changed.Wait()
		}
		late.Stop()
	}
	s.finish(net.ErrClosed)
	s.mu.Unlock()
	s.work.Wait()
	return nil
}
