package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// call is one open request. The link's goroutine delivers to it and never waits; the caller takes
// from the inboxes whenever notify says so, until done.
type call struct {
	id     uint32
	notify chan struct{}
	inbox  [2]*frame.Inbox // stdout, stderr
	// room is what each stream may still bring in all; only the link's goroutine uses it.
	room    [2]int64
	credit  *frame.SendWindow // for stdin
	started chan frame.StartedBody
	pid     atomic.Bool // whether started has been sent
	done    chan struct{}
	answer  answer // valid once done is closed
}

// answer closes a call.
type answer struct {
	exit  *frame.ExitBody
	reply []byte
	err   error
}

// newCall returns a call whose streams may bring so many bytes each.
func newCall(room int64) *call {
	notify := make(chan struct{}, 1)
	return &call{
		notify:  notify,
		inbox:   [2]*frame.Inbox{frame.NewInbox(notify), frame.NewInbox(notify)},
		room:    [2]int64{room, room},
		credit:  frame.NewSendWindow(),
		started: make(chan frame.StartedBody, 1),
		done:    make(chan struct{}),
	}
}

func (c *call) receive(stream uint8, p []byte) error {
	if stream != frame.Out && stream != frame.Err {
		return fmt.Errorf("%w: data on stream %d", frame.ErrProtocol, stream)
	}
	i := stream - frame.Out
	if c.room[i] -= int64(len(p)); c.room[i] < 0 {
		return fmt.Errorf("%w: more output than was asked for", frame.ErrProtocol)
	}
	return c.inbox[i].Put(p)
}

func (c *call) start(p []byte) error {
	var b frame.StartedBody
	if err := frame.Decode(p, &b); err != nil {
		return err
	}
	if b.PID <= 1 || c.pid.Swap(true) {
		return fmt.Errorf("%w: started twice or as process %d", frame.ErrProtocol, b.PID)
	}
	c.started <- b
	return nil
}

// awaitStart waits until the command has a process. It may have ended since.
func (c *call) awaitStart(ctx context.Context) (frame.StartedBody, error) {
	select {
	case b := <-c.started:
		return b, nil
	case <-c.done:
	case <-ctx.Done():
		return frame.StartedBody{}, ctx.Err()
	}
	select {
	case b := <-c.started:
		return b, nil
	default:
		return frame.StartedBody{}, cmp.Or(c.answer.err, errors.New("process ended before it started"))
	}
}

func (c *call) finish(a answer) {
	c.answer = a
	c.credit.Close() // nobody reads stdin any more
	for _, b := range c.inbox {
		b.End()
	}
	close(c.done)
}

// exit is the verdict that closed the call, or nil.
func (c *call) exit() *frame.ExitBody {
	select {
	case <-c.done:
		return c.answer.exit
	default:
		return nil
	}
}

// maxReply bounds a Reply's body; all of them are a few numbers.
const maxReply = 4 << 10

func decodeAnswer(f frame.Frame, c *call) (answer, error) {
	switch f.Type {
	case frame.Exit:
		var b frame.ExitBody
		if err := frame.Decode(f.Payload, &b); err != nil {
			return answer{}, err
		}
		return answer{exit: &b}, checkExit(b)
	case frame.Fail:
		var b frame.FailBody
		if err := frame.Decode(f.Payload, &b); err != nil {
			return answer{}, err
		}
		return answer{err: failure(b)}, nil
	}
	if len(f.Payload) > maxReply {
		return answer{}, fmt.Errorf("%w: reply of %d bytes", frame.ErrProtocol, len(f.Payload))
	}
	return answer{reply: append([]byte(nil), f.Payload...)}, nil
}

// maxMessage bounds the words of a failure that are passed on.
const maxMessage = 1 << 10

// pidsError is the failure of a command that found no room for its process.
type pidsError struct{ message string }

func (e pidsError) Error() string { return e.message }

// failure gives a Fail frame the domain's error.
func failure(b frame.FailBody) error {
	message := b.Message[:min(len(b.Message), maxMessage)]
	kinds := map[frame.Code]error{
		frame.NotFound:   machine.ErrNotFound,
		frame.Outside:    machine.ErrOutside,
		frame.NotRegular: machine.ErrNotRegular,
		frame.TooLarge:   machine.ErrTooLarge,
	}
	if b.Code == frame.NoProcess {
		return pidsError{message}
	}
	if kind := kinds[b.Code]; kind != nil {
		return fmt.Errorf("%w (%q)", kind, message)
	}
	return fmt.Errorf("in the sandbox: %q", message)
}

// await waits for the call's end, handing what comes to sink and giving credit for it. When ctx
// ends it returns ctx's error with the call still open.
func (l *link) await(ctx context.Context, c *call, sink func(stream uint8, p []byte)) (answer, error) {
	for {
		select {
		case <-c.notify:
			if err := l.collect(c, sink, true); err != nil {
				return answer{}, err
			}
		case <-c.done:
			_ = l.collect(c, sink, false) // never asks for more, so cannot fail
			return c.answer, c.answer.err
		case <-ctx.Done():
			return answer{}, ctx.Err()
		}
	}
}

// collect empties the inboxes. Credit is of use only while the call is open.
func (l *link) collect(c *call, sink func(stream uint8, p []byte), open bool) error {
	for i, b := range c.inbox {
		stream := frame.Out + uint8(i)
		p, credit, _ := b.Take()
		if len(p) > 0 {
			sink(stream, p)
		}
		if credit == nil || !open {
			continue
		}
		if err := l.send(frame.Frame{Type: frame.Credit, Stream: stream, ID: c.id, Payload: credit}); err != nil {
			return err
		}
	}
	return nil
}

// push sends p as the call's stdin, as credit allows, and ends it.
func (l *link) push(ctx context.Context, c *call, p []byte) error {
	for len(p) > 0 {
		n, err := c.credit.Take(ctx, min(len(p), frame.MaxData))
		if err != nil {
			return err
		}
		if err := l.send(frame.Frame{Type: frame.Data, Stream: frame.In, ID: c.id, Payload: p[:n]}); err != nil {
			return err
		}
		p = p[n:]
	}
	return l.send(frame.Frame{Type: frame.End, Stream: frame.In, ID: c.id})
}
