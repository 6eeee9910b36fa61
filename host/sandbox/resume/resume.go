// Package resume carries a stream of bytes between a host and a supervisor that listens, over one connection after the other: when a
// connection is cut the host dials again, and the stream continues without a byte lost or doubled. Every connection is TLS 1.3 with
// certificates of both ends that were made for this one sandbox.
//
// Start with Dial, which is the host's end, and Listener, the supervisor's. Stream (stream.go) is what both get: it keeps what it wrote until
// the peer has acknowledged it, and sends it again over the next connection. hello.go is the exchange that begins a connection, conn.go
// what follows on it, identity.go the certificates.
//
// A stream belongs to an owner, which is a host with an epoch. A connection with a higher epoch begins another stream and ends the one
// before; one with a lower epoch is refused with frame.ErrTaken. The package does not interpret what the stream carries.
package resume

import (
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Timeouts are what an end waits for. The zero value of each stands for the usual one.
type Timeouts struct {
	// Handshake bounds the time from a connection's start until both ends have said which stream it continues.
	Handshake time.Duration
	// Beat is how often each end says that it is there, and Silence how long a peer may say nothing before its connection is cut.
	Beat, Silence time.Duration
	// Patience is how long a stream waits for its next connection before it ends.
	Patience time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	for _, d := range []struct {
		of    *time.Duration
		usual time.Duration
	}{{&t.Handshake, 5 * time.Second}, {&t.Beat, 5 * time.Second}, {&t.Silence, 15 * time.Second}, {&t.Patience, time.Minute}} {
		if *d.of <= 0 {
			*d.of = d.usual
		}
	}
	return t
}

var (
	errProtocol = fmt.Errorf("%w: connection", frame.ErrProtocol)
	// errOver means that the supervisor does not have the stream any more.
	errOver = errors.New("the supervisor has ended this connection")
)
