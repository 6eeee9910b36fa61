package resume

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/sdk/backoff"
)

// Host configures the host's end of a stream.
type Host struct {
	// Dial opens a connection to the supervisor's endpoint.
	Dial func(ctx context.Context) (net.Conn, error)
	// Gone reports whether the supervisor has ended. It is called after each connection that failed, and may be nil.
	Gone func(ctx context.Context) bool
	// Identity is the host's, from NewIdentities.
	Identity []byte
	// Epoch is higher than that of every host before this one.
	Epoch    uint64
	Timeouts Timeouts
}

// The wait between two connections that fail.
const (
	firstWait = 20 * time.Millisecond
	mostWait  = 2 * time.Second
)

// dialer connects a stream.
type dialer struct {
	Host
	tls    *tls.Config
	stream *Stream
}

// Dial begins a stream. It tries until ctx ends, because a supervisor that has just started may not listen yet. The error is frame.ErrTaken
// if another host has a higher epoch. Afterwards the stream reconnects by itself.
func Dial(ctx context.Context, h Host) (*Stream, error) {
	settings, err := hostTLS(h.Identity)
	if err != nil {
		return nil, err
	}
	h.Timeouts = h.Timeouts.withDefaults()
	d := &dialer{Host: h, tls: settings, stream: newStream(newSession(), h.Epoch, h.Timeouts)}
	if err := d.connect(ctx); err != nil {
		d.stream.Close()
		return nil, fmt.Errorf("connect to the supervisor: %w", err)
	}
	d.stream.work.Go(d.reconnect)
	return d.stream, nil
}

// reconnect connects whenever the connection is cut, until the stream is over.
func (d *dialer) reconnect() {
	for {
		select {
		case <-d.stream.cut:
		case <-d.stream.ctx.Done():
			return
		}
		if err := d.connect(d.stream.ctx); err != nil {
			if errors.Is(err, errOver) {
				err = io.EOF
			}
			d.stream.end(err)
		}
	}
}

// connect tries until there is a connection, or none can be expected.
func (d *dialer) connect(ctx context.Context) error {
	wait := backoff.Backoff{First: firstWait, Most: mostWait}
	for {
		err := d.once(ctx)
		if err == nil || errors.Is(err, frame.ErrTaken) || errors.Is(err, frame.ErrProtocol) || errors.Is(err, errOver) {
			return err
		}
		if d.Gone != nil && d.Gone(ctx) {
			return fmt.Errorf("%w: %w", errOver, err)
		}
		if backoff.Sleep(ctx, wait.Failed(0)) != nil {
			return err
		}
	}
}

// once makes one connection.
func (d *dialer) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.Timeouts.Handshake)
	defer cancel()
	plain, err := d.Dial(ctx)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { plain.Close() })()
	if err := d.over(ctx, plain); err != nil {
		plain.Close()
		return err
	}
	return nil
}

// over continues the stream over a connection.
func (d *dialer) over(ctx context.Context, plain net.Conn) error {
	raw := newRecords(plain)
	secure := tls.Client(raw, d.tls)
	received, attempt, err := d.stream.begin()
	if err != nil {
		return err
	}
	peerHas, err := d.greet(ctx, secure, received)
	if err != nil {
		return err
	}
	return d.stream.attach(newConn(secure, raw), attempt, peerHas)
}

// greet proves who we are and says which stream it is. It returns how much of that the supervisor has.
func (d *dialer) greet(ctx context.Context, c *tls.Conn, received uint64) (uint64, error) {
	if err := c.HandshakeContext(ctx); err != nil {
		return 0, err
	}
	if err := (hello{d.stream.session, d.Epoch, received}).write(c); err != nil {
		return 0, err
	}
	a, err := readAnswer(c)
	return a.received, err
}
