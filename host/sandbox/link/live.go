package link

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Stdin is where a live command reads. A Write waits until there is room; once the command has ended it fails with
// io.ErrClosedPipe. Close is the end of input. Call it once.
func (c *Call) Stdin() io.WriteCloser { return &liveInput{call: c} }

// Stdout is what a live command writes. What is read makes room for more; io.EOF means that the command has ended. Call it once.
func (c *Call) Stdout() io.Reader { return &liveOutput{call: c, stream: frame.Out} }

// Stderr is the same of its other stream.
func (c *Call) Stderr() io.Reader { return &liveOutput{call: c, stream: frame.Err} }

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
	call   *Call
	stream uint8

	mu    sync.Mutex
	rest  []byte
	ended bool
}

func (r *liveOutput) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rest) == 0 && !r.ended {
		if err := r.take(); err != nil {
			return 0, err
		}
	}
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *liveOutput) take() error {
	p, credit, ended, err := r.call.inbox[r.stream-frame.Out].Wait(context.Background()) // ends with the call
	if err != nil {
		return err
	}
	r.rest, r.ended = p, ended
	if credit == nil || ended {
		return nil
	}
	return r.call.link.grant(r.call.id, r.stream, credit)
}
