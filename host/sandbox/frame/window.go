package frame

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// WindowSize is the initial credit of a stream, in bytes.
const WindowSize = 256 << 10

// SendWindow is the sender's credit for a stream: call Take before sending, and Grant when the peer allows more. It is safe for concurrent
// use.
type SendWindow struct {
	mu     sync.Mutex
	avail  int
	closed bool
	more   chan struct{} // closed and replaced at each Grant
}

// ErrClosed means that the stream's request is over.
var ErrClosed = errors.New("stream is closed")

// NewSendWindow returns a window with the initial credit.
func NewSendWindow() *SendWindow {
	return &SendWindow{avail: WindowSize, more: make(chan struct{})}
}

// Take waits for credit and takes up to want bytes of it, at least one.
func (w *SendWindow) Take(ctx context.Context, want int) (int, error) {
	for {
		w.mu.Lock()
		if w.closed {
			w.mu.Unlock()
			return 0, ErrClosed
		}
		if w.avail > 0 {
			n := min(want, w.avail)
			w.avail -= n
			w.mu.Unlock()
			return n, nil
		}
		more := w.more
		w.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Grant adds the credit of a Credit frame's payload. More than a window is a protocol error.
func (w *SendWindow) Grant(payload []byte) error {
	if len(payload) != 4 {
		return fmt.Errorf("%w: credit of %d bytes", ErrProtocol, len(payload))
	}
	n := binary.BigEndian.Uint32(payload)
	w.mu.Lock()
	defer w.mu.Unlock()
	if n == 0 || n > WindowSize || w.avail+int(n) > WindowSize {
		return fmt.Errorf("%w: credit of %d on top of %d", ErrProtocol, n, w.avail)
	}
	w.avail += int(n)
	w.wake()
	return nil
}

// Close makes Take fail: no more credit will come.
func (w *SendWindow) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.wake()
}

// wake makes every waiting Take check again. w.mu is held.
func (w *SendWindow) wake() {
	close(w.more)
	w.more = make(chan struct{})
}

// ReceiveWindow is the receiver's side: it refuses data beyond the credit and decides when to grant more. It is not safe for concurrent
// use.
type ReceiveWindow struct {
	used     int // received and not granted again yet
	consumed int // the part of used that was consumed
}

// Receive accounts for n bytes that arrived.
func (w *ReceiveWindow) Receive(n int) error {
	if w.used+n > WindowSize {
		return fmt.Errorf("%w: %d bytes beyond the credit", ErrProtocol, w.used+n-WindowSize)
	}
	w.used += n
	return nil
}

// Consume marks n bytes as consumed and returns the payload of the Credit frame to send now, or nil while less than half a window is due.
func (w *ReceiveWindow) Consume(n int) []byte {
	w.consumed += n
	if w.consumed < WindowSize/2 {
		return nil
	}
	p := binary.BigEndian.AppendUint32(nil, uint32(w.consumed))
	w.used -= w.consumed
	w.consumed = 0
	return p
}
