package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

const (
	// patience bounds the supervisor's answer to a file request. A container that takes longer hangs, and is removed.
	patience = 60 * time.Second
	// stopPatience bounds the answer to a cancellation.
	stopPatience = 10 * time.Second
)

// flow is an open file request: bytes in both directions, then a reply. Credit limits how much of it is in memory, so its size is not
// bounded. It is for one goroutine, except send.
type flow struct {
	call *Call
	over bool // no more frames will come
}

// endless is the room of an unbounded stream.
const endless = 1 << 62

// open sends a request. room bounds each stream of the answer.
func (l *Link) open(ctx context.Context, typ frame.Type, body any, room int64) (*flow, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := &flow{call: l.newCall(room)}
	return f, l.begin(f.call, frame.Frame{Type: typ, Payload: frame.Encode(body)})
}

// next returns what has arrived on stream Out, valid until the next call. io.EOF means that the reply has arrived.
func (f *flow) next(ctx context.Context) ([]byte, error) { return f.take(ctx, frame.Out) }

// take is next for either stream.
func (f *flow) take(ctx context.Context, stream uint8) ([]byte, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		ended := f.call.isOver() // checked first: what precedes the reply is in the inbox by then
		p, credit, _ := f.call.inbox[stream-frame.Out].Take()
		if credit != nil && !ended {
			if err := f.call.link.grant(f.call.id, stream, credit); err != nil {
				return nil, err
			}
		}
		switch {
		case len(p) > 0:
			return p, nil
		case ended:
			f.over = true
			return nil, f.failure()
		}
		select {
		case <-f.call.notify:
		case <-f.call.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
			return nil, f.hangs(patience)
		}
	}
}

// failure returns why an ended call has failed, or io.EOF.
func (f *flow) failure() error { return cmp.Or(f.call.answer.err, io.EOF) }

func (f *flow) hangs(after time.Duration) error {
	reason := f.call.link.unanswered(fmt.Errorf("no answer within %v", after))
	f.call.link.Fail(reason)
	return fmt.Errorf("%w: %w", machine.ErrUnavailable, reason)
}

// send sends all of r on stream In and ends it. It returns errors of r unchanged. If the supervisor refuses more, that is not an error
// here: its reply says why.
func (f *flow) send(ctx context.Context, r io.Reader) error {
	buf := make([]byte, frame.MaxData)
	for {
		n, err := io.ReadFull(r, buf)
		if pushed := f.push(ctx, buf[:n]); pushed != nil {
			if errors.Is(pushed, frame.ErrClosed) {
				return nil
			}
			return pushed
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return f.call.endInput()
		default:
			return err
		}
	}
}

// push sends p as credit allows.
func (f *flow) push(ctx context.Context, p []byte) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := f.call.link.push(waiting, f.call.id, f.call.credit, p)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return f.hangs(patience)
	case err != nil:
		return err
	}
	return ctx.Err()
}

// finish waits for the reply, passing what precedes it to sink, and decodes it.
func (f *flow) finish(ctx context.Context, sink func(p []byte), reply any) error {
	for {
		p, err := f.next(ctx)
		switch {
		case err == io.EOF:
			return f.call.link.checked(f.decode(reply))
		case err != nil:
			return err
		case sink != nil:
			sink(p)
		}
	}
}

func (f *flow) decode(reply any) error { return frame.Decode(f.call.answer.reply, reply) }

// close cancels an unfinished request, and waits until nothing happens inside on its behalf.
func (f *flow) close() {
	if f.over {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	if f.call.Cancel() != nil {
		return
	}
	for {
		_, err := f.next(ctx)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			_ = f.hangs(stopPatience)
		}
		if err != nil {
			return
		}
	}
}

// request is a request other than a command: a body, possibly bytes in one direction, a reply.
type request struct {
	typ   frame.Type
	body  any
	send  io.Reader // may be nil
	room  int64
	sink  func(p []byte) // may be nil
	reply any            // where to decode the reply
}

// transfer executes a request.
func (l *Link) transfer(ctx context.Context, r request) error {
	f, err := l.open(ctx, r.typ, r.body, r.room)
	if err != nil {
		return err
	}
	defer f.close()
	if r.send != nil {
		if err := f.send(ctx, r.send); err != nil {
			return err
		}
	}
	return f.finish(ctx, r.sink, r.reply)
}
