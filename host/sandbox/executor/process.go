package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/link"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// MaxProcesses bounds the background processes that a session remembers; those that ended first are forgotten first.
const MaxProcesses = 64

// process is one background process.
type process struct {
	number int
	call   *link.Call

	mu   sync.Mutex
	info machine.Process
}

// snapshot returns the current state of the process.
func (p *process) snapshot() machine.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.call.Done():
		if p.info.Running {
			p.info.Running = false
			r := p.call.Result()
			p.info.Result = &r
		}
	default:
	}
	return p.info
}

// ImageProcess is the id of the process that StartImage starts.
const ImageProcess = "image"

// isImage reports whether this is the image's own process. The others are numbered from 1.
func (p *process) isImage() bool { return p.number == 0 }

// id returns the id by which callers name the process.
func (p *process) id() string {
	if p.isImage() {
		return ImageProcess
	}
	return strconv.Itoa(p.number)
}

// Start starts a background process and returns once it has a process id. admit calls enter unless there are too many processes.
func (x *Executor) Start(ctx context.Context, cmd machine.Command, admit func(enter func() error) error) (machine.Process, error) {
	body, err := x.body(cmd)
	if err != nil {
		return machine.Process{}, err
	}
	p := &process{call: x.link.NewCall()}
	if err := admit(func() error { return x.enter(p) }); err != nil {
		return machine.Process{}, err
	}
	return x.spawn(ctx, p, body, cmd)
}

// StartImage starts the image's own program as a background process of the workload's user, in a folder of the image. It is not restarted
// when it ends: its result is listed among the processes.
func (x *Executor) StartImage(ctx context.Context, argv, env []string, dir string) error {
	p := &process{call: x.link.NewCall()}
	x.mu.Lock()
	x.processes[p.id()] = p
	x.mu.Unlock()
	body := frame.ExecBody{MaxOutput: machine.DefaultMaxOutput, Argv: frame.Words(argv), Env: frame.Words(env), Cwd: []byte(dir)}
	_, err := x.spawn(ctx, p, body, machine.Command{Script: strings.Join(argv, " ")})
	return err
}

// Resume registers a background process of a supervisor that another host has left.
func (x *Executor) Resume(e frame.KeptEntry) {
	p := &process{number: e.Process, call: x.link.Resume(e)}
	p.info = machine.Process{
		ID: p.id(), PID: e.PID, Script: string(e.Script), Started: time.Unix(0, e.Started), Running: true,
	}
	x.processes[p.info.ID] = p
	x.started = max(x.started, e.Process)
}

// spawn starts a process that was registered.
func (x *Executor) spawn(ctx context.Context, p *process, body frame.ExecBody, cmd machine.Command) (machine.Process, error) {
	body.Background, body.Eager, body.Process = true, false, p.number
	p.announce(cmd.Script)
	if err := p.call.Begin(body, cmd.Stdin); err != nil {
		x.leave(p)
		return machine.Process{}, err
	}
	started, err := x.awaitStart(ctx, p.call)
	if err != nil {
		if ctx.Err() != nil {
			_, stopErr := x.stop(p)
			err = cmp.Or(stopErr, err)
		}
		x.leave(p)
		return machine.Process{}, err
	}
	p.mu.Lock()
	p.info.PID = started.PID
	p.mu.Unlock()
	return p.snapshot(), nil
}

// announce publishes the script before the process exists: others may see it, and end it, while it starts.
func (p *process) announce(script string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = machine.Process{ID: p.id(), Script: script, Started: time.Now(), Running: true}
}

// startAllowance bounds the start of a process. A container in which it takes longer hangs and is removed.
const startAllowance = 15 * time.Second

func (x *Executor) awaitStart(ctx context.Context, c *link.Call) (frame.StartedBody, error) {
	brief, cancel := context.WithTimeout(ctx, startAllowance)
	defer cancel()
	started, err := c.AwaitStart(brief)
	if brief.Err() == nil || ctx.Err() != nil || err == nil {
		return started, err
	}
	hung := fmt.Errorf("%w: the sandbox has started no process within %v", machine.ErrUnavailable, startAllowance)
	if why := x.container.WhyHung(); why != nil {
		hung = fmt.Errorf("%w: %w", hung, why)
	}
	return started, errors.Join(hung, x.container.Remove(hung))
}

// enter assigns an id to the process, making room if needed.
func (x *Executor) enter(p *process) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.processes) >= MaxProcesses && !x.forgetOldest() {
		return fmt.Errorf("%d background processes are running; kill one first", MaxProcesses)
	}
	x.started++
	p.number = x.started
	p.announce("")
	x.processes[p.id()] = p
	return nil
}

// forgetOldest forgets the process that ended first. x.mu is held.
func (x *Executor) forgetOldest() bool {
	var oldest *process
	for _, p := range x.processes {
		select {
		case <-p.call.Done():
			if p.isImage() {
				continue
			}
			if oldest == nil || p.number < oldest.number {
				oldest = p
			}
		default:
		}
	}
	if oldest == nil {
		return false
	}
	delete(x.processes, oldest.id())
	oldest.call.Forget()
	return true
}

// leave forgets a process that failed to start, on both sides.
func (x *Executor) leave(p *process) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.processes, p.id())
	p.call.AwaitInput()
	p.call.Forget()
}

func (x *Executor) process(id string) (*process, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.processes[id]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%w: background process %q", machine.ErrNotFound, id)
}

// List returns the processes, oldest first.
func (x *Executor) List() []machine.Process {
	x.mu.Lock()
	known := slices.SortedFunc(maps.Values(x.processes), func(p, q *process) int { return cmp.Compare(p.number, q.number) })
	x.mu.Unlock()
	infos := make([]machine.Process, len(known))
	for i, p := range known {
		infos[i] = p.snapshot()
	}
	return infos
}

// Running reports whether a background process is running; the image's own process does not count.
func (x *Executor) Running() bool {
	return slices.ContainsFunc(x.List(), func(p machine.Process) bool { return p.Running && p.ID != ImageProcess })
}

// Output reads from the kept output of a process.
func (x *Executor) Output(ctx context.Context, id string, offset int64, n int) (machine.Output, error) {
	p, err := x.process(id)
	if err != nil {
		return machine.Output{}, err
	}
	return p.call.Output(ctx, offset, n)
}

// Kill ends a process with everything that it started, including what outlived its shell.
func (x *Executor) Kill(ctx context.Context, id string) (machine.Process, error) {
	p, err := x.process(id)
	if err != nil {
		return machine.Process{}, err
	}
	select {
	case <-p.call.Done():
		return x.sweep(ctx, p)
	default:
		return x.stop(p)
	}
}

// stop ends a running process; it waits no longer than the escalating signals may take.
func (x *Executor) stop(p *process) (machine.Process, error) {
	began := time.Now()
	if err := p.call.Stop(); err != nil {
		return p.snapshot(), err
	}
	overdue := time.NewTimer(ladderAllowance)
	defer overdue.Stop()
	select {
	case <-p.call.Done():
	case <-overdue.C:
	}
	return x.certify(p, began)
}

// sweep ends what an ended process has left running.
func (x *Executor) sweep(ctx context.Context, p *process) (machine.Process, error) {
	began := time.Now()
	kill, err := p.call.Sweep(ctx)
	if err != nil {
		return p.snapshot(), err
	}
	p.snapshot()
	p.mu.Lock()
	p.info.Result.Kill = &kill
	p.mu.Unlock()
	return x.certify(p, began)
}

// certify returns the process, after removing the container if anything in it survived.
func (x *Executor) certify(p *process, began time.Time) (machine.Process, error) {
	info := p.snapshot()
	if !info.Running && (info.Result.Kill == nil || info.Result.Kill.Survivors == 0) {
		return info, p.call.Err()
	}
	r, err := x.lastRung(machine.Result{ExitCode: -1, Signal: "SIGKILL"}, began)
	info.Running, info.Result = false, &r
	return info, err
}

// Signal sends a signal to a process's group.
func (x *Executor) Signal(id string, sig syscall.Signal) error {
	p, err := x.process(id)
	if err != nil {
		return err
	}
	return p.call.Signal(int(sig))
}

// Wait waits until a process has ended.
func (x *Executor) Wait(ctx context.Context, id string) (machine.Process, error) {
	p, err := x.process(id)
	if err != nil {
		return machine.Process{}, err
	}
	select {
	case <-p.call.Done():
		return p.snapshot(), p.call.Err()
	case <-ctx.Done():
		return p.snapshot(), ctx.Err()
	}
}
