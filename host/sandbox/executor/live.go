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

// Size is the size of a terminal in characters.
type Size struct{ Rows, Cols uint16 }

// Live is an interactive process: it reads what is written to Stdin, and blocks while nobody reads its output. No output is lost or capped.
// Close must always be called.
//
// With a terminal, all output is on Stdout, and closing Stdin sends control-D, which a program may treat as an ordinary character.
type Live struct {
	PID    int
	Stdin  io.WriteCloser
	Stdout io.Reader
	Stderr io.Reader

	executor *Executor
	call     *link.Call
	began    time.Time

	quit    func() bool // stops watching the caller's context
	release func()
	end     sync.Once
}

// Spawn starts a command, with a terminal if a size is given; it ends when ctx does. Progress, MaxOutput, Stdin and Spill of the command
// are ignored, and a Timeout of zero means none. release is called once, by Close or if Spawn fails.
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

// Signal sends a signal to the process and its group. With a terminal, write the key's character instead: control-C is 0x03.
func (l *Live) Signal(sig syscall.Signal) error { return l.call.Signal(int(sig)) }

// Resize changes the size of the terminal.
func (l *Live) Resize(size Size) error { return l.call.Resize(frame.Size(size)) }

// Wait waits for the result, which requires that the output is read meanwhile.
func (l *Live) Wait(ctx context.Context) (machine.Result, error) {
	select {
	case <-l.call.Done():
		return l.result()
	case <-ctx.Done():
		return machine.Result{}, ctx.Err()
	}
}

// result returns the result of a process that has ended.
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

// stop asks the supervisor to end the process.
func (l *Live) stop() { _ = l.call.Cancel() }

// Close ends the process if it still runs, with everything that it started, and closes its streams.
func (l *Live) Close() error {
	var err error
	l.end.Do(func() {
		l.quit()
		err = l.finish()
		l.release()
	})
	return err
}

// finish waits for the result as long as the escalating signals may take, then removes the container.
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
			return nil // it ended with its container
		}
		return err
	case <-overdue.C:
		_, err := l.executor.lastRung(machine.Result{}, l.began)
		return err
	}
}
