package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/link"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// maxProcesses bounds the background processes that a session remembers; the oldest ended
// ones are forgotten first.
const maxProcesses = 64

// process is one background process of a box.
type process struct {
	number int
	call   *link.Call

	mu   sync.Mutex
	info machine.Process
}

// snapshot returns the process as it is now.
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

// start begins a background process and returns once it has a process id.
func (b *box) start(ctx context.Context, cmd machine.Command, s *Session) (machine.Process, error) {
	body, err := execBody(cmd, s.spec.WorkspaceDir)
	if err != nil {
		return machine.Process{}, err
	}
	p := &process{call: b.link.NewCall()}
	if err := s.m.config.Quota.Process(s.session, func() error { return b.enter(p) }); err != nil {
		return machine.Process{}, err
	}
	return b.spawn(ctx, p, body, cmd)
}

// spawn starts a process that was entered.
func (b *box) spawn(ctx context.Context, p *process, body frame.ExecBody, cmd machine.Command) (machine.Process, error) {
	body.Background, body.Eager, body.Process = true, false, p.number
	p.announce(cmd.Script)
	if err := p.call.Begin(body, cmd.Stdin); err != nil {
		b.leave(p)
		return machine.Process{}, err
	}
	started, err := b.awaitStart(ctx, p.call)
	if err != nil {
		if ctx.Err() != nil {
			_, stopErr := b.stop(p)
			err = cmp.Or(stopErr, err)
		}
		b.leave(p)
		return machine.Process{}, err
	}
	p.mu.Lock()
	p.info.PID = started.PID
	p.mu.Unlock()
	return p.snapshot(), nil
}

// announce says what will run, before there is a process: others may see it, and end it, while it starts.
func (p *process) announce(script string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = machine.Process{ID: p.id(), Script: script, Started: time.Now(), Running: true}
}

// startAllowance is how long a process may take to start. One that takes longer means that the container hangs, and
// ends it.
const startAllowance = 15 * time.Second

func (b *box) awaitStart(ctx context.Context, c *link.Call) (frame.StartedBody, error) {
	brief, cancel := context.WithTimeout(ctx, startAllowance)
	defer cancel()
	started, err := c.AwaitStart(brief)
	if brief.Err() == nil || ctx.Err() != nil || err == nil {
		return started, err
	}
	hung := fmt.Errorf("%w: the sandbox has started no process within %v", machine.ErrUnavailable, startAllowance)
	if why := b.whyHung(); why != nil {
		hung = fmt.Errorf("%w: %w", hung, why)
	}
	return started, errors.Join(hung, b.remove(hung))
}

// enter gives the process its handle, making room if needed.
func (b *box) enter(p *process) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.processes) >= maxProcesses && !b.forgetOldest() {
		return fmt.Errorf("%d background processes are running; kill one first", maxProcesses)
	}
	b.started++
	p.number = b.started
	p.announce("")
	b.processes[p.id()] = p
	return nil
}

// forgetOldest drops the longest known process that has ended. b.mu is held.
func (b *box) forgetOldest() bool {
	var oldest *process
	for _, p := range b.processes {
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
	delete(b.processes, oldest.id())
	oldest.call.Forget()
	return true
}

// leave forgets a process whose start has failed or was given up, on both sides.
func (b *box) leave(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.processes, p.id())
	p.call.AwaitInput()
	p.call.Forget()
}

func (b *box) process(id string) (*process, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.processes[id]; p != nil {
		return p, nil
	}
	if _, is := b.project.service(id); is {
		return nil, fmt.Errorf("%w: %s is a service, which ends with the sandbox", machine.ErrNotFound, id)
	}
	return nil, fmt.Errorf("%w: background process %q", machine.ErrNotFound, id)
}

// list returns the processes, oldest first.
func (b *box) list() []machine.Process {
	b.mu.Lock()
	known := make([]*process, 0, len(b.processes))
	for _, p := range b.processes {
		known = append(known, p)
	}
	b.mu.Unlock()
	slices.SortFunc(known, func(p, q *process) int { return cmp.Compare(p.number, q.number) })
	infos := make([]machine.Process, len(known))
	for i, p := range known {
		infos[i] = p.snapshot()
	}
	return infos
}

// running reports whether any background process is still at work; the image's own runs as long as the container.
func (b *box) running() bool {
	return slices.ContainsFunc(b.list(), func(p machine.Process) bool { return p.Running && p.ID != ImageProcess })
}

// output reads what the supervisor keeps of a process's output.
func (b *box) output(ctx context.Context, id string, offset int64, n int) (machine.Output, error) {
	p, err := b.process(id)
	if err != nil {
		return machine.Output{}, err
	}
	return p.call.Output(ctx, offset, n)
}

// kill ends a process with everything it started, also what outlived its shell.
func (b *box) kill(ctx context.Context, id string) (machine.Process, error) {
	p, err := b.process(id)
	if err != nil {
		return machine.Process{}, err
	}
	select {
	case <-p.call.Done():
		return b.sweep(ctx, p)
	default:
		return b.stop(p)
	}
}

// stop ends a running process; it waits no longer than the ladder may take.
func (b *box) stop(p *process) (machine.Process, error) {
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
	return b.certify(p, began)
}

// sweep ends what an ended process has left behind.
func (b *box) sweep(ctx context.Context, p *process) (machine.Process, error) {
	began := time.Now()
	kill, err := p.call.Sweep(ctx)
	if err != nil {
		return p.snapshot(), err
	}
	p.snapshot()
	p.mu.Lock()
	p.info.Result.Kill = &kill
	p.mu.Unlock()
	return b.certify(p, began)
}

// certify returns the process, having removed the container if anything survived in it.
func (b *box) certify(p *process, began time.Time) (machine.Process, error) {
	info := p.snapshot()
	if !info.Running && (info.Result.Kill == nil || info.Result.Kill.Survivors == 0) {
		return info, p.call.Err()
	}
	r, err := b.lastRung(machine.Result{ExitCode: -1, Signal: "SIGKILL"}, began)
	info.Running, info.Result = false, &r
	return info, err
}

// signal sends a signal to a process's group.
func (b *box) signal(id string, sig syscall.Signal) error {
	p, err := b.process(id)
	if err != nil {
		return err
	}
	return p.call.Signal(int(sig))
}

// wait waits until a process has ended.
func (b *box) wait(ctx context.Context, id string) (machine.Process, error) {
	p, err := b.process(id)
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
