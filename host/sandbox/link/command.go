package link

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// NewCall returns a command that has not begun.
func (l *Link) NewCall() *Call {
	c := l.newCall(0)
	c.isCommand, c.started = true, make(chan frame.StartedBody, 1)
	return c
}

var (
	errTooLong  = errors.New("command with its environment is too long for the sandbox")
	errNotBegun = errors.New("the command has not begun yet: try again")
)

// Begin sends a command, and then its stdin as credit allows. With body.Background its output stays inside and is read with Output; with
// body.Live it is on Stdout and Stderr; otherwise Wait returns up to body.MaxOutput bytes of it.
func (c *Call) Begin(body frame.ExecBody, stdin []byte) error {
	first := frame.Frame{Type: frame.Exec, Payload: frame.Encode(body)}
	if len(first.Payload) > frame.MaxPayload {
		return errTooLong
	}
	c.reserve(body)
	if err := c.link.begin(c, first); err != nil {
		return err
	}
	if len(stdin) > 0 {
		c.input.Go(func() { c.pushAll(stdin) })
	}
	return nil
}

// reserve sets how much the command may send.
func (c *Call) reserve(body frame.ExecBody) {
	c.limit, c.spill = body.MaxOutput, body.Spill
	switch {
	case body.Background:
	case body.Live:
		c.room = [2]int64{math.MaxInt64, math.MaxInt64}
		for i := range c.inbox { // each is waited for separately
			c.inbox[i] = frame.NewInbox(make(chan struct{}, 1))
		}
	default:
		c.room = [2]int64{body.MaxOutput, body.MaxOutput}
	}
}

// pushAll sends all of stdin and ends it. It returns when the call ends, whose answer reports any failure.
func (c *Call) pushAll(stdin []byte) {
	if _, err := c.link.push(context.Background(), c.id, c.credit, stdin); err == nil {
		_ = c.endInput()
	}
}

// AwaitInput waits until Begin's stdin is no longer in use, which is soon after the call has ended, or earlier.
func (c *Call) AwaitInput() { c.input.Wait() }

// AwaitStart waits until the command has a process, which may have ended since.
func (c *Call) AwaitStart(ctx context.Context) (frame.StartedBody, error) {
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

// Done is closed when the command has ended or the link has failed.
func (c *Call) Done() <-chan struct{} { return c.done }

// Err returns why there is no result, or nil. Done must be closed.
func (c *Call) Err() error { return c.answer.err }

// Result returns the result. A command without one has ended with its container. Done must be closed.
func (c *Call) Result() machine.Result {
	if c.answer.exit == nil {
		return machine.Result{ExitCode: -1, Signal: "SIGKILL"}
	}
	return toResult(*c.answer.exit)
}

// Wait waits for the result and collects the output, passing it to progress, if that is not nil, as it arrives. When ctx ends, it returns
// ctx's error and the output so far, and the command continues.
func (c *Call) Wait(ctx context.Context, progress func(machine.Stream, []byte)) (machine.Result, error) {
	var streams [2][]byte
	r, err := c.await(ctx, func(stream uint8, p []byte) {
		streams[stream-frame.Out] = append(streams[stream-frame.Out], p...)
		if progress != nil {
			progress(machine.Stream(stream), p)
		}
	})
	r.Stdout, r.Stderr = streams[0], streams[1]
	if err == nil && c.spill {
		exit := c.answer.exit
		r.Stdout = mark(r.Stdout, exit.Dropped-exit.DroppedErr, c.limit, r.Spill)
		r.Stderr = mark(r.Stderr, exit.DroppedErr, c.limit, r.Spill)
	}
	return r, err
}

// await waits for the result, passing output to sink and granting credit for it.
func (c *Call) await(ctx context.Context, sink func(stream uint8, p []byte)) (machine.Result, error) {
	for {
		select {
		case <-c.notify:
			if err := c.collect(sink, true); err != nil {
				return machine.Result{ExitCode: -1}, err
			}
		case <-c.done:
			_ = c.collect(sink, false) // cannot fail, because it grants no credit
			if err := c.answer.err; err != nil {
				var pids pidsError
				return machine.Result{ExitCode: -1, PidsHit: errors.As(err, &pids), DiskHit: errors.Is(err, machine.ErrFull)}, err
			}
			return toResult(*c.answer.exit), nil
		case <-ctx.Done():
			return machine.Result{ExitCode: -1}, ctx.Err()
		}
	}
}

// collect empties the inboxes. It grants credit only while the call is open.
func (c *Call) collect(sink func(stream uint8, p []byte), open bool) error {
	for i, b := range c.inbox {
		stream := frame.Out + uint8(i)
		p, credit, _ := b.Take()
		if len(p) > 0 {
			sink(stream, p)
		}
		if credit == nil || !open {
			continue
		}
		if err := c.link.grant(c.id, stream, credit); err != nil && !c.isOver() { // the result may have arrived already
			return err
		}
	}
	return nil
}

// Stop makes the supervisor end the command with everything that it started.
func (c *Call) Stop() error { return c.tell(frame.Stop, frame.StopBody{}) }

// Cancel is like Stop, for a caller that no longer waits for the command.
func (c *Call) Cancel() error { return c.tell(frame.Stop, frame.StopBody{Cancel: true}) }

// Signal sends a signal to the command's process group.
func (c *Call) Signal(number int) error {
	return c.tell(frame.Signal, frame.SignalBody{Number: number})
}

// Resize changes the size of the command's terminal.
func (c *Call) Resize(size frame.Size) error { return c.tell(frame.Resize, size) }

// tell sends a frame about a command that has begun. A frame about any other would violate the protocol.
func (c *Call) tell(t frame.Type, body any) error {
	if !c.begun.Load() {
		return errNotBegun
	}
	return c.link.send(frame.Frame{Type: t, ID: c.id, Payload: frame.Encode(body)})
}

// Forget makes the supervisor forget an ended background command and its output.
func (c *Call) Forget() {
	if c.begun.Load() && !c.link.Dead() {
		_ = c.link.send(frame.Frame{Type: frame.Forget, ID: c.id})
	}
}

// maxOutputRead bounds one Output; the supervisor keeps no more than that.
const maxOutputRead = 1 << 20

// Output reads from the kept output of a background command.
func (c *Call) Output(ctx context.Context, offset int64, n int) (machine.Output, error) {
	if !c.begun.Load() {
		return machine.Output{}, errNotBegun
	}
	n = min(max(n, 0), maxOutputRead)
	var data []byte
	var reply frame.OutputReply
	err := c.link.transfer(ctx, request{
		typ: frame.Output, body: frame.OutputBody{Process: c.id, Offset: max(offset, 0), Max: n},
		room: int64(n), sink: func(p []byte) { data = append(data, p...) }, reply: &reply,
	})
	return machine.Output{
		Data: data, Offset: reply.Offset, Next: reply.Next, Dropped: reply.Dropped, Running: reply.Running,
	}, err
}

// Sweep ends what an ended background command has left running.
func (c *Call) Sweep(ctx context.Context) (machine.Kill, error) {
	var k frame.KillBody
	err := c.link.transfer(ctx, request{typ: frame.Sweep, body: frame.SweepBody{Process: c.id}, reply: &k})
	if err == nil {
		err = c.link.checked(checkKill(k))
	}
	if err != nil {
		return machine.Kill{}, err
	}
	return machine.Kill(k), nil
}
