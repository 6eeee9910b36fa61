package resume

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Listener is the supervisor's end: it accepts connections for as long as the supervisor runs.
type Listener struct {
	net      net.Listener
	tls      *tls.Config
	timeouts Timeouts
	hosts    chan io.ReadWriteCloser // has the latest stream until it is taken

	mu     sync.Mutex
	half   map[net.Conn]bool // connections that have not said yet what they are
	epoch  uint64            // of stream
	stream *Stream           // nil before the first host
}

const (
	// maxHalf bounds the connections that have not said yet what they are. Another one takes the place of any of them, so that those who
	// say nothing do not keep the host out.
	maxHalf = 32
	// acceptPause is the delay after a failure to accept, for example for lack of descriptors.
	acceptPause = 50 * time.Millisecond
)

// NewListener returns a Listener that accepts from l once Serve runs. identity is the supervisor's, from NewIdentities.
func NewListener(l net.Listener, identity []byte, t Timeouts) (*Listener, error) {
	settings, err := supervisorTLS(identity)
	if err != nil {
		return nil, err
	}
	return &Listener{
		net: l, tls: settings, timeouts: t.withDefaults(), hosts: make(chan io.ReadWriteCloser, 1), half: map[net.Conn]bool{},
	}, nil
}

// Hosts returns the channel of the streams, one for each host. The streams before are over.
func (l *Listener) Hosts() <-chan io.ReadWriteCloser { return l.hosts }

// Serve accepts connections until the net.Listener is closed.
func (l *Listener) Serve() {
	for {
		c, err := l.net.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptPause)
		default:
			l.enter(c)
			go l.meet(c)
		}
	}
}

// enter counts a connection, and closes another one if there are too many.
func (l *Listener) enter(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.half) >= maxHalf {
		for other := range l.half { // in no order
			other.Close()
			delete(l.half, other)
			break
		}
	}
	l.half[c] = true
}

func (l *Listener) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.half, c)
}

// meet finds out what a new connection is.
func (l *Listener) meet(plain net.Conn) {
	defer l.leave(plain)
	if plain.SetDeadline(time.Now().Add(l.timeouts.Handshake)) != nil || l.greet(plain) != nil {
		plain.Close()
	}
}

// greet requires the certificate of the host, and continues a stream or begins one.
func (l *Listener) greet(plain net.Conn) error {
	raw := newRecords(plain)
	secure := tls.Server(raw, l.tls)
	if err := secure.HandshakeContext(context.Background()); err != nil {
		return err
	}
	h, err := readHello(secure)
	if err != nil {
		return err
	}
	s, attempt, a := l.admit(h)
	if err := a.write(secure); err != nil || a.status != welcome {
		return errors.Join(err, errOver)
	}
	if err := plain.SetDeadline(time.Time{}); err != nil {
		return err
	}
	l.leave(plain)
	return s.attach(newConn(secure, raw), attempt, h.received)
}

// admit decides about a hello.
func (l *Listener) admit(h hello) (s *Stream, attempt int, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case h.epoch > l.epoch && h.received == 0:
		l.replace(newStream(h.session, h.epoch, l.timeouts))
	case h.epoch > l.epoch:
		return nil, 0, answer{status: over, epoch: l.epoch}
	case h.epoch < l.epoch || h.session != l.stream.session:
		return nil, 0, answer{status: taken, epoch: l.epoch}
	}
	received, attempt, err := l.stream.resume(h.received)
	if err != nil {
		return nil, 0, answer{status: over, epoch: l.epoch}
	}
	return l.stream, attempt, answer{status: welcome, epoch: l.epoch, received: received}
}

// replace makes s the stream, and ends the one before.
func (l *Listener) replace(s *Stream) {
	if l.stream != nil {
		l.stream.end(io.EOF)
	}
	select {
	case <-l.hosts: // nobody has taken it
	default:
	}
	l.stream, l.epoch = s, s.epoch
	l.hosts <- s
}
