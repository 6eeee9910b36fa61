package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

const (
	// patience is how long nothing may move of a file request while it is the supervisor's turn. After that its container
	// hangs, and is ended.
	patience = 60 * time.Second
	// stopPatience bounds the wait for a request that was given up.
	stopPatience = 10 * time.Second
)

// flow is an open file request: bytes both ways, then a reply. Credit makes each end wait for the other, so its size is
// not bounded and little of it is in memory. It is for one goroutine, apart from send.
type flow struct {
	b    *box
	call *call
	over bool // nothing is to come
}

// endless is the room of a stream that is as long as it wants to be.
const endless = 1 << 62

// openFlow sends a request. room bounds each stream of the answer.
func (b *box) openFlow(ctx context.Context, typ frame.Type, body any, room int64) (*flow, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := &flow{b: b, call: newCall(room)}
	return f, b.link.begin(f.call, frame.Frame{Type: typ, Payload: frame.Encode(body)})
}

// next returns what has come on stream Out, valid until the following call. io.EOF means that the reply is there.
func (f *flow) next(ctx context.Context) ([]byte, error) { return f.take(ctx, frame.Out) }

// take is next for either stream.
func (f *flow) take(ctx context.Context, stream uint8) ([]byte, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		ended := f.ended() // before the look: what came before the reply is in the inbox by then
		p, credit, _ := f.call.inbox[stream-frame.Out].Take()
		if credit != nil && !ended {
			if err := f.b.link.send(frame.Frame{Type: frame.Credit, Stream: stream, ID: f.call.id, Payload: credit}); err != nil {
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

func (f *flow) ended() bool {
	select {
	case <-f.call.done:
		return true
	default:
		return false
	}
}

// failure is why an ended call has failed, or io.EOF.
func (f *flow) failure() error {
	if f.call.answer.err != nil {
		return f.call.answer.err
	}
	return io.EOF
}

func (f *flow) hangs(after time.Duration) error {
	reason := fmt.Errorf("no answer within %v", after)
	f.b.link.fail(reason)
	return fmt.Errorf("%w: %w", machine.ErrUnavailable, reason)
}

// send sends all of r on stream In and ends it. An error of r's comes back as it is. When the supervisor wants no more,
// that is no error here: its reply says why.
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
			return f.endInput()
		default:
			return err
		}
	}
}

func (f *flow) endInput() error {
	return f.b.link.send(frame.Frame{Type: frame.End, Stream: frame.In, ID: f.call.id})
}

// push sends p as credit allows.
func (f *flow) push(ctx context.Context, p []byte) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for len(p) > 0 {
		n, err := f.call.credit.Take(waiting, len(p))
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return f.hangs(patience)
		}
		if err != nil {
			return err
		}
		if err := f.b.link.send(frame.Frame{Type: frame.Data, Stream: frame.In, ID: f.call.id, Payload: p[:n]}); err != nil {
			return err
		}
		p = p[n:]
	}
	return ctx.Err()
}

// finish waits for the reply, passing what comes before it to sink, and decodes it.
func (f *flow) finish(ctx context.Context, sink func(p []byte), reply any) error {
	for {
		p, err := f.next(ctx)
		switch {
		case err == io.EOF:
			return f.b.checked(f.decode(reply))
		case err != nil:
			return err
		case sink != nil:
			sink(p)
		}
	}
}

func (f *flow) decode(reply any) error {
	if f.call.answer.exit != nil {
		return fmt.Errorf("%w: a verdict on a file request", frame.ErrProtocol)
	}
	return frame.Decode(f.call.answer.reply, reply)
}

// close gives up what is not over yet, and waits until nothing more happens inside on its behalf.
func (f *flow) close() {
	if f.over {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	if f.b.link.send(frame.Frame{Type: frame.Stop, ID: f.call.id, Payload: frame.Encode(frame.StopBody{Cancel: true})}) != nil {
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
