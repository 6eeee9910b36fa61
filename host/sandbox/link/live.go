package link

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Stdin returns the stdin of a live command. Write blocks until there is credit; once the command has ended it fails with io.ErrClosedPipe.
// Close ends the input. Call Stdin once.
func (c *Call) Stdin() io.WriteCloser { return &liveInput{call: c} }

// Stdout returns the stdout of a live command. Reading grants credit for more; io.EOF means that the command has ended. Call it once.
func (c *Call) Stdout() io.Reader { return c.output(frame.Out) }

// Stderr is like Stdout for the other stream.
func (c *Call) Stderr() io.Reader { return c.output(frame.Err) }

func (c *Call) output(stream uint8) io.Reader {
	return &liveOutput{out: streamReader{link: c.link, id: c.id, stream: stream, in: c.inbox[stream-frame.Out]}}
}

// liveInput is a command's stdin.
type liveInput struct {
	call *Call

	mu    sync.Mutex
	ended bool
}

func (w *liveInput) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return 0, io.ErrClosedPipe
	}
	sent, err := w.call.link.push(context.Background(), w.call.id, w.call.credit, p) // ends with the call
	if errors.Is(err, frame.ErrClosed) {
		err = io.ErrClosedPipe
	}
	return sent, err
}

func (w *liveInput) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil
	}
	w.ended = true
	return w.call.endInput()
}

// liveOutput is one stream that a command writes.
type liveOutput struct {
	mu  sync.Mutex
	out streamReader
}

func (r *liveOutput) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.read(context.Background(), p) // ends with the call
}

// streamReader reads one stream of the supervisor and grants credit for more.
type streamReader struct {
	link   *Link
	id     uint32
	stream uint8
	in     *frame.Inbox
	rest   []byte // taken but not read yet
	ended  bool
}

// read blocks until there is data; io.EOF is the end of the stream.
func (r *streamReader) read(ctx context.Context, p []byte) (int, error) {
	if len(r.rest) == 0 && !r.ended {
		data, credit, ended, err := r.in.Wait(ctx)
		if err != nil {
			return 0, err
		}
		r.rest, r.ended = data, ended
		if credit != nil && !ended {
			if err := r.link.grant(r.id, r.stream, credit); err != nil {
				return 0, err
			}
		}
	}
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
