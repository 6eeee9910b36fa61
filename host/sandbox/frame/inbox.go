package frame

import (
	"context"
	"sync"
)

// Inbox is the receiving end of one stream. The goroutine that reads frames puts bytes in without ever blocking; the owner takes them out
// and sends the credit that Take returns. The window bounds its size.
type Inbox struct {
	mu     sync.Mutex
	win    ReceiveWindow
	buf    []byte
	spare  []byte
	ended  bool
	notify chan struct{}
}

// NewInbox returns an Inbox that signals notify, which must be buffered, whenever there is something to take. Several inboxes may share one
// channel.
func NewInbox(notify chan struct{}) *Inbox { return &Inbox{notify: notify} }

// Put adds the payload of a Data frame. An error means that the peer violated the protocol.
func (b *Inbox) Put(p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return errAfterEnd
	}
	if err := b.win.Receive(len(p)); err != nil {
		return err
	}
	b.buf = append(b.buf, p...)
	b.wake()
	return nil
}

// End marks the stream as complete.
func (b *Inbox) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.wake()
}

func (b *Inbox) wake() {
	select {
	case b.notify <- struct{}{}:
	default:
	}
}

// Take returns the bytes that have arrived, valid until the next Take, the payload of a Credit frame to send or nil, and whether the stream
// is complete. It does not block.
func (b *Inbox) Take() (p, credit []byte, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p = b.buf
	b.buf, b.spare = b.spare[:0], p
	if len(p) > 0 {
		credit = b.win.Consume(len(p))
	}
	return p, credit, b.ended
}

// Wait is Take for an Inbox that has its own channel: it waits until there is something.
func (b *Inbox) Wait(ctx context.Context) (p, credit []byte, ended bool, err error) {
	for {
		p, credit, ended = b.Take()
		if len(p) > 0 || ended {
			return p, credit, ended, nil
		}
		select {
		case <-b.notify:
		case <-ctx.Done():
			return nil, nil, false, ctx.Err()
		}
	}
}
