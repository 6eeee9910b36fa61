package executor

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/link"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Size is a terminal's, in characters.
type Size struct{ Rows, Cols uint16 }

// Live is a process that somebody is talking to: it reads what is written to Stdin, and is held up when nobody reads what it
// writes. Nothing of that is lost or capped. Close it in any case.
//
// With a terminal everything that it writes is on Stdout, and closing Stdin is the end of input as a terminal has it:
// control-D, which a program may take for a character like any other.
type Live struct {
	PID    int
	Stdin  io.WriteCloser
	Stdout io.Reader
	Stderr io.Reader

	executor *Executor
	call     *link.Call
	began    time.Time

	quit    func() bool // takes back the watch on the caller's context
	release func()
	end     sync.Once
}

// Spawn starts a command, with a terminal if it is given a size, which ends when ctx does. Progress, MaxOutput, Stdin and Spill
// of the command do not count, and a Timeout of zero is none. release is called once at Close, or with the error.
func (x *Executor) Spawn(ctx context.Context, cmd machine.Command, release func(), terminal ...Size) (*Live, error) {
	l := &Live{executor: x, began: time.Now(), release: release}
	body, err := x.body(cmd)
	if err != nil {
		release()
		return nil, err
	}
	body.Live, body.Stdin, body.Spill = true, true, false
	if len(terminal) > 0 {
		size := frame.Size(terminal[0])
		body.Terminal = &size
	}
	l.call = x.link.NewCall()
	if err := l.call.Begin(body, nil); err != nil {
		release()
		return nil, err
	}
	l.Stdin, l.Stdout, l.Stderr = l.call.Stdin(), l.call.Stdout(), l.call.Stderr()
	l.quit = context.AfterFunc(ctx, l.stop)
	started, err := l.call.AwaitStart(ctx)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.PID = started.PID
	return l, nil
}

// Signal sends a signal to the process and its group. With a terminal, write what a keyboard would: control-C is 0x03.
func (l *Live) Signal(sig syscall.Signal) error { return l.call.Signal(int(sig)) }

// Resize gives the terminal another size.
func (l *Live) Resize(size Size) error { return l.call.Resize(frame.Size(size)) }

// Wait waits for the result. It comes when the process has ended and its output has been read, so read meanwhile.
func (l *Live) Wait(ctx context.Context) (machine.Result, error) {
	select {
	case <-l.call.Done():
		return l.result()
	case <-ctx.Done():
		return machine.Result{}, ctx.Err()
	}
}

// result is that of a process that is over.
func (l *Live) result() (machine.Result, error) {
	r, err := l.call.Result(), l.call.Err()
	if err != nil {
		r.Wall = time.Since(l.began)
		return r, err
	}
	if r.Kill != nil && r.Kill.Survivors > 0 {
		return l.executor.lastRung(r, l.began)
	}
	return r, nil
}

// stop asks for the end.
func (l *Live) stop() { _ = l.call.Cancel() }

// Close ends the process if it still runs, with everything it started, and gives its streams up.
func (l *Live) Close() error {
	var err error
	l.end.Do(func() {
		l.quit()
		err = l.finish()
		l.release()
	})
	return err
}

// finish waits for the result as long as the ladder may take; then the container goes.
func (l *Live) finish() error {
	select {
	case <-l.call.Done():
	default:
		l.stop()
	}
	overdue := time.NewTimer(ladderAllowance)
	defer overdue.Stop()
	select {
	case <-l.call.Done():
		_, err := l.result()
		if errors.Is(err, machine.ErrUnavailable) {
			return nil // it is over with its container
		}
		return err
	case <-overdue.C:
		_, err := l.executor.lastRung(machine.Result{}, l.began)
		return err
	}
}
