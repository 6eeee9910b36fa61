package sandbox

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Size is a terminal's, in characters.
type Size struct{ Rows, Cols uint16 }

// Live is a process that somebody is talking to: it reads what is written to Stdin, and is held up when nobody reads what it
// writes. Nothing of that is lost or capped. Close it, whatever happens.
//
// With a terminal everything that it writes is on Stdout, and closing Stdin is the end of input as a terminal has it:
// control-D, which a program may take for a character like any other.
type Live struct {
	PID    int
	Stdin  io.WriteCloser
	Stdout io.Reader
	Stderr io.Reader

	box   *box
	call  *call
	began time.Time

	quit    func() bool // takes back the watch on the caller's context
	release func()
	end     sync.Once
}

// Spawn starts a command, with a terminal if it is given a size, which ends when ctx does. Progress, MaxOutput, Stdin and Spill
// of the command do not count, and a Timeout of zero is none.
func (s *Session) Spawn(ctx context.Context, cmd machine.Command, terminal ...Size) (*Live, error) {
	b, release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	l, err := b.spawnLive(ctx, cmd, s.spec.WorkspaceDir, terminal)
	if err != nil {
		release()
		return nil, err
	}
	l.release = release
	return l, nil
}

func (b *box) spawnLive(ctx context.Context, cmd machine.Command, workspaceDir string, terminal []Size) (*Live, error) {
	body, err := execBody(cmd, workspaceDir)
	if err != nil {
		return nil, err
	}
	body.Live, body.Stdin, body.Spill = true, true, false
	if len(terminal) > 0 {
		size := frame.Size(terminal[0])
		body.Terminal = &size
	}
	first := frame.Frame{Type: frame.Exec, Payload: frame.Encode(body)}
	if len(first.Payload) > frame.MaxPayload {
		return nil, errTooLong
	}
	l := &Live{box: b, call: newLiveCall(), began: time.Now()}
	if err := b.link.begin(l.call, first); err != nil {
		return nil, err
	}
	l.Stdin = &liveInput{link: b.link, call: l.call}
	l.Stdout, l.Stderr = l.output(frame.Out), l.output(frame.Err)
	l.quit = context.AfterFunc(ctx, l.stop)
	started, err := l.call.awaitStart(ctx)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.PID = started.PID
	return l, nil
}

// newLiveCall returns a call without bounds, whose streams are waited for one by one.
func newLiveCall() *call {
	c := newCall(math.MaxInt64)
	for i := range c.inbox {
		c.inbox[i] = frame.NewInbox(make(chan struct{}, 1))
	}
	return c
}

// Signal sends a signal to the process and its group. With a terminal, write what a keyboard would: control-C is 0x03.
func (l *Live) Signal(sig syscall.Signal) error {
	return l.send(frame.Signal, frame.SignalBody{Number: int(sig)})
}

// Resize gives the terminal another size.
func (l *Live) Resize(size Size) error { return l.send(frame.Resize, frame.Size(size)) }

func (l *Live) send(t frame.Type, body any) error {
	return l.box.link.send(frame.Frame{Type: t, ID: l.call.id, Payload: frame.Encode(body)})
}

// Wait waits for the verdict. It comes when the process has ended and its output has been read, so read meanwhile.
func (l *Live) Wait(ctx context.Context) (machine.Result, error) {
	select {
	case <-l.call.done:
		return l.result()
	case <-ctx.Done():
		return machine.Result{}, ctx.Err()
	}
}

// result is the verdict of a process that is over.
func (l *Live) result() (machine.Result, error) {
	exit := l.call.exit()
	if exit == nil && l.call.answer.err == nil {
		l.box.link.fail(errNoVerdict)
		return machine.Result{}, machine.ErrUnavailable
	}
	if exit == nil {
		return machine.Result{ExitCode: -1, Signal: "SIGKILL", Wall: time.Since(l.began)}, l.call.answer.err
	}
	r := verdict(*exit)
	if r.Kill != nil && r.Kill.Survivors > 0 {
		return l.box.lastRung(r, l.began)
	}
	return r, nil
}

// stop asks for the end.
func (l *Live) stop() { _ = l.send(frame.Stop, frame.StopBody{Cancel: true}) }

// Close ends the process if it still runs, with everything it started, and gives its streams up.
func (l *Live) Close() error {
	var err error
	l.end.Do(func() {
		l.quit()
		err = l.finish()
		if l.release != nil {
			l.release()
		}
	})
	return err
}

// finish waits for the verdict as long as the ladder may take; then the container goes.
func (l *Live) finish() error {
	select {
	case <-l.call.done:
	default:
		l.stop()
	}
	overdue := time.NewTimer(ladderAllowance)
	defer overdue.Stop()
	select {
	case <-l.call.done:
		_, err := l.result()
		if errors.Is(err, machine.ErrUnavailable) {
			return nil // it is over with its container
		}
		return err
	case <-overdue.C:
		_, err := l.box.lastRung(machine.Result{}, l.began)
		return err
	}
}

// liveInput is the process's stdin.
type liveInput struct {
	link *link
	call *call

	mu    sync.Mutex
	ended bool
}

// Write waits until the process has room. Once the process has ended it fails with io.ErrClosedPipe.
func (w *liveInput) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for sent := 0; sent < len(p); {
		if w.ended {
			return sent, io.ErrClosedPipe
		}
		n, err := w.call.credit.Take(context.Background(), min(len(p)-sent, frame.MaxData)) // ends with the call
		if err != nil {
			return sent, io.ErrClosedPipe
		}
		err = w.link.send(frame.Frame{Type: frame.Data, Stream: frame.In, ID: w.call.id, Payload: p[sent : sent+n]})
		if err != nil {
			return sent, err
		}
		sent += n
	}
	return len(p), nil
}

// Close is the end of input.
func (w *liveInput) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil
	}
	w.ended = true
	return w.link.send(frame.Frame{Type: frame.End, Stream: frame.In, ID: w.call.id})
}

// liveOutput is one stream that the process writes.
type liveOutput struct {
	link   *link
	call   *call
	stream uint8

	mu    sync.Mutex
	rest  []byte
	ended bool
}

func (l *Live) output(stream uint8) io.Reader {
	return &liveOutput{link: l.box.link, call: l.call, stream: stream}
}

// Read returns io.EOF when the process has ended and everything is read. What is read makes room for more.
func (r *liveOutput) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rest) == 0 && !r.ended {
		data, credit, ended, err := r.call.inbox[r.stream-frame.Out].Wait(context.Background()) // ends with the call
		if err != nil {
			return 0, err
		}
		r.rest, r.ended = data, ended
		if credit != nil && !ended {
			f := frame.Frame{Type: frame.Credit, Stream: r.stream, ID: r.call.id, Payload: credit}
			if err := r.link.send(f); err != nil {
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
