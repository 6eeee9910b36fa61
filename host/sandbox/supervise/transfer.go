//go:build linux

package supervise

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// maxTransfers bounds the transfers that run at the same time, and with them the threads that they block. One that waits for the host does
// not count.
const maxTransfers = 4

// transfer is any request other than a command: a body, bytes in one direction, a reply.
type transfer struct {
	s      *supervisor
	id     uint32
	in     *frame.Inbox
	window *frame.SendWindow
	ctx    context.Context // ends when the host cancels the request
	cancel context.CancelFunc
	rest   []byte // received but not read yet
}

func newTransfer(s *supervisor, id uint32) *transfer {
	t := &transfer{s: s, id: id, in: frame.NewInbox(make(chan struct{}, 1)), window: frame.NewSendWindow()}
	t.ctx, t.cancel = context.WithCancel(s.ctx)
	return t
}

// openTransfer begins a request with a body of type B. do returns the reply's body.
func openTransfer[B any](s *supervisor, f frame.Frame, do func(t *transfer, b B) (reply any, err error)) error {
	t := newTransfer(s, f.ID)
	if err := s.add(f.ID, t); err != nil {
		return err
	}
	payload := bytes.Clone(f.Payload)
	go t.run(func() (any, error) {
		var b B
		if err := frame.Decode(payload, &b); err != nil {
			return nil, err
		}
		return do(t, b)
	})
	return nil
}

func (t *transfer) run(work func() (reply any, err error)) {
	defer t.cancel()
	t.resume()
	defer t.yield()
	reply, err := work()
	if err != nil {
		t.s.fail(t.id, err)
		return
	}
	t.s.closeWith(t.id, frame.Frame{Type: frame.Reply, ID: t.id, Payload: frame.Encode(reply)})
}

func (t *transfer) data(p []byte) error { return t.in.Put(p) }
func (t *transfer) end()                { t.in.End() }

// cut cancels the request: a part is missing, and half a file must not be mistaken for a whole one.
func (t *transfer) cut() { t.cancel() }

func (t *transfer) grant(stream uint8, p []byte) error {
	if stream != frame.Out {
		return fmt.Errorf("%w: credit for stream %d", frame.ErrProtocol, stream)
	}
	return t.window.Grant(p)
}

// resume and yield enclose the work between two waits for the host.
func (t *transfer) resume() { t.s.transfers <- struct{}{} }
func (t *transfer) yield()  { <-t.s.transfers }

// Write sends bytes to the host as credit allows.
func (t *transfer) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		n, err := t.credit(min(len(p)-sent, frame.MaxData))
		if err != nil {
			return sent, err
		}
		t.s.send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: t.id, Payload: p[sent : sent+n]})
		sent += n
	}
	return len(p), nil
}

func (t *transfer) credit(want int) (int, error) {
	t.yield()
	defer t.resume()
	return t.window.Take(t.ctx, want)
}

// Read returns what the host sends, until the host ends it.
func (t *transfer) Read(p []byte) (int, error) {
	if len(t.rest) == 0 {
		if err := t.await(); err != nil {
			return 0, err
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// await takes what has arrived, or waits for it.
func (t *transfer) await() error {
	t.yield()
	defer t.resume()
	p, credit, ended, err := t.in.Wait(t.ctx)
	if err != nil {
		return err
	}
	if credit != nil {
		t.s.send(frame.Frame{Type: frame.Credit, Stream: frame.In, ID: t.id, Payload: credit})
	}
	if t.rest = p; len(p) == 0 && ended {
		return io.EOF
	}
	return nil
}

// output returns kept output of a background command.
func (s *supervisor) output(t *transfer, b frame.OutputBody) (any, error) {
	c := s.command(b.Process)
	if c == nil || c.ring == nil {
		return nil, fail(frame.NotFound, "no such background process")
	}
	running := c.isRunning() // before the read: what ends later is read by the next call
	p, first, dropped := c.ring.Read(b.Offset, b.Max)
	if _, err := t.Write(p); err != nil {
		return nil, err
	}
	return frame.OutputReply{Offset: first, Next: first + int64(len(p)), Dropped: dropped, Running: running}, nil
}

// sweep ends what an ended background command has left running.
func (s *supervisor) sweep(_ *transfer, b frame.SweepBody) (any, error) {
	c := s.command(b.Process)
	if c == nil || c.ring == nil || c.isRunning() {
		return nil, fail(frame.NotFound, "no such finished background process")
	}
	return s.end(c.child), nil
}
