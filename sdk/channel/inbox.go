package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/flynnhost/flynn/sdk/internal/process"
	"github.com/flynnhost/flynn/sdk/proto/bounds"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// Errors of Inbox.
var (
	// ErrMalformed is wrapped by the error for an event that can never be delivered, because this package or the host found that it
	// violates the contract. The same event would get the same error again. This package logs it.
	ErrMalformed = errors.New("malformed event")
	// ErrEnding means that the plugin is ending; the event will have to be delivered again.
	ErrEnding = process.ErrEnding
)

// Settled reports whether an event with this result of Inbox is finished: the host has it, or will never accept it. Acknowledge it to the
// platform then; any other event has to be delivered again.
func Settled(err error) bool { return err == nil || errors.Is(err, ErrMalformed) }

const (
	maxRaw      = 64 << 10 // bytes of Event.RawJSON
	frameMargin = 1 << 10  // what the frame adds to the event
)

// pending is an event that the host has not acked.
type pending struct {
	frame *channelv1.ReceiveResponse
	done  func(error)
}

// backlog holds the events between Deliver and the host's ack. It assigns sequence numbers and enforces credit: it never holds more events
// than the window of the latest stream. It outlives streams, which makes replay possible.
type backlog struct {
	calling sync.Mutex // held while done functions are called, so that they are called in order; locked before mu

	mu      sync.Mutex
	log     *slog.Logger
	held    func() error // why no event is accepted; nil if events are
	events  []pending    // unacked, in order of seq
	first   uint64       // seq of events[0]; of the next event when there is none
	window  int          // 0 until the first stream
	stream  int          // number of the current stream
	ending  bool
	changed chan struct{} // closed and replaced whenever one of the above changes
}

func newBacklog() *backlog {
	return &backlog{first: 1, changed: make(chan struct{}), held: func() error { return nil }}
}

// wake wakes every goroutine that waits for a change. b.mu is held.
func (b *backlog) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// add waits for credit and appends e.
func (b *backlog) add(ctx context.Context, e *channelv1.Event, done func(error)) error {
	for {
		b.mu.Lock()
		if b.ending {
			b.mu.Unlock()
			return ErrEnding
		}
		if err := b.held(); err != nil {
			b.mu.Unlock()
			return err
		}
		if len(b.events) < b.window {
			e.Seq = b.first + uint64(len(b.events))
			frame := &channelv1.ReceiveResponse{Frame: &channelv1.ReceiveResponse_Event{Event: e}}
			b.events = append(b.events, pending{frame, done})
			b.wake()
			b.mu.Unlock()
			return nil
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open makes a new stream the current one and returns its number and the seq that it starts with.
func (b *backlog) open(window uint32) (stream int, first uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stream++
	b.window = int(max(window, 1))
	b.wake()
	return b.stream, b.first
}

// errReplaced ends a stream when a newer one has begun.
var errReplaced = errors.New("a newer stream has begun")

// next waits for the frame with number seq to exist and to be within the window.
func (b *backlog) next(ctx context.Context, stream int, seq uint64) (*channelv1.ReceiveResponse, error) {
	for {
		b.mu.Lock()
		frame, err := b.at(stream, seq)
		changed := b.changed
		b.mu.Unlock()
		if frame != nil || err != nil {
			return frame, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// at returns the frame with number seq, or nil when it has to wait. b.mu is held.
func (b *backlog) at(stream int, seq uint64) (*channelv1.ReceiveResponse, error) {
	if stream != b.stream {
		return nil, errReplaced
	}
	if b.ending {
		return nil, ErrEnding
	}
	// The window of a new stream may be smaller than the number of events that are already in flight.
	i := seq - b.first
	if i >= uint64(min(len(b.events), b.window)) {
		return nil, nil
	}
	return b.events[i].frame, nil
}

// ack releases every event up to the one in the host's ack; sent is the number after the last event that the stream has sent.
func (b *backlog) ack(stream int, ack *channelv1.Ack, sent uint64) error {
	seq := ack.GetSeq()
	b.calling.Lock()
	defer b.calling.Unlock()
	b.mu.Lock()
	if stream != b.stream {
		b.mu.Unlock()
		return errReplaced
	}
	if seq >= sent {
		b.mu.Unlock()
		return fmt.Errorf("ack of %d, but the last event sent is %d", seq, sent-1)
	}
	if seq < b.first {
		b.mu.Unlock()
		return nil
	}
	first, n := b.first, seq-b.first+1
	acked := append([]pending(nil), b.events[:n]...)
	b.events = append(b.events[:0], b.events[n:]...)
	clear(b.events[len(b.events) : len(b.events)+len(acked)])
	b.first += n
	b.wake()
	b.mu.Unlock()
	refused := make(map[uint64]error, len(ack.GetRejected()))
	for _, r := range ack.GetRejected() {
		refused[r.GetSeq()] = fmt.Errorf("%w: the host refused it: %s", ErrMalformed, r.GetReason())
	}
	for i, p := range acked {
		err := refused[first+uint64(i)]
		if err != nil {
			b.warn(p.frame.GetEvent(), err)
		}
		p.done(err)
	}
	return nil
}

// refuse calls done for an event that the host would refuse, after the done functions of the events before it.
func (b *backlog) refuse(e *channelv1.Event, err error, done func(error)) {
	b.calling.Lock()
	defer b.calling.Unlock()
	b.warn(e, err)
	b.mu.Lock()
	if n := len(b.events); n > 0 {
		last, before := &b.events[n-1], b.events[n-1].done
		last.done = func(acked error) {
			before(acked)
			done(err)
		}
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	done(err)
}

func (b *backlog) warn(e *channelv1.Event, err error) {
	b.mu.Lock()
	log := b.log
	b.mu.Unlock()
	if log != nil {
		log.Warn("an event was refused", "event", e.GetEventId(), "error", err)
	}
}

// begin accepts events again after end: a program under a debugger serves one host after the other.
func (b *backlog) begin(log *slog.Logger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ending, b.window, b.log = false, 0, log
}

// disown calls the done functions of the waiting events, because the host's lease has expired: the platform delivers them again, perhaps to
// another host. The events stay, without gaps in their numbers, for a host that reads on; hosts drop repeats.
func (b *backlog) disown() {
	b.calling.Lock()
	defer b.calling.Unlock()
	b.mu.Lock()
	waiting := slices.Clone(b.events)
	for i := range b.events {
		b.events[i].done = func(error) {}
	}
	b.wake() // events that wait for credit are refused
	b.mu.Unlock()
	for _, p := range waiting {
		p.done(ErrLeaseExpired)
	}
}

// end refuses further events and calls the done functions of the waiting ones.
func (b *backlog) end() {
	b.calling.Lock()
	defer b.calling.Unlock()
	b.mu.Lock()
	left := b.events
	b.first += uint64(len(left))
	b.events, b.ending = nil, true
	b.wake()
	b.mu.Unlock()
	for _, p := range left {
		p.done(ErrEnding)
	}
}

// inbox implements Inbox with a backlog and a status board.
type inbox struct {
	*backlog
	*process.Board
}

var _ Inbox = inbox{}

// Deliver implements Inbox.
func (in inbox) Deliver(ctx context.Context, e Event) error {
	acked := make(chan error, 1)
	if err := in.DeliverAsync(ctx, e, func(err error) { acked <- err }); err != nil {
		return err
	}
	select {
	case err := <-acked:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// DeliverAsync implements Inbox.
func (in inbox) DeliverAsync(ctx context.Context, e Event, done func(error)) error {
	wire := eventToWire(e)
	if err := check(wire); err != nil {
		in.refuse(wire, err, done)
		return nil
	}
	return in.add(ctx, wire, done)
}

// DeliverAll delivers events in order and returns when all of them are settled. It is for a plugin that polls and confirms a batch as a
// whole.
func DeliverAll(ctx context.Context, in Inbox, events []Event) error {
	acks := make(chan error, len(events))
	for _, e := range events {
		if err := in.DeliverAsync(ctx, e, func(err error) { acks <- err }); err != nil {
			return fmt.Errorf("deliver event %s: %w", e.ID, err)
		}
	}
	for _, e := range events {
		select {
		case err := <-acks:
			if !Settled(err) {
				return fmt.Errorf("deliver event %s: %w", e.ID, err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// check refuses what the host would refuse, here where the author can see the cause.
func check(e *channelv1.Event) error {
	if err := bounds.Event(e); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if len(e.RawJson) > maxRaw {
		e.RawJson = nil
	}
	if size := proto.Size(e); size > handshake.MaxFrame-frameMargin {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrMalformed, size, handshake.MaxFrame-frameMargin)
	}
	return nil
}
