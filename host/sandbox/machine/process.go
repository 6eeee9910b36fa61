package machine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/ring"
)

// Limits of background processes.
const (
	maxProcesses = 32 // kept, running or not
	// maxOutputRead bounds the result of one call of Output.
	maxOutputRead = 256 << 10
)

// processTable holds the background processes of a machine, and counts everything that runs on it.
type processTable struct {
	mu     sync.Mutex
	last   int
	list   []*background // oldest first
	closed bool
	active int // number of running commands
	work   sync.WaitGroup
}

// background is one background process.
type background struct {
	output ring.Buffer // joined
	cancel context.CancelFunc
	done   chan struct{} // closed once view is final

	mu   sync.Mutex
	view Process
}

func newProcessTable() *processTable { return &processTable{} }

// enter counts a command, for which close waits. It fails once the machine is closed.
func (t *processTable) enter() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosed
	}
	t.active++
	t.work.Add(1)
	return nil
}

func (t *processTable) leave() {
	t.mu.Lock()
	t.active--
	t.mu.Unlock()
	t.work.Done()
}

// Idle reports whether no command and no background process is running.
func (h *Host) Idle() bool {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	return h.table.active == 0
}

// close refuses new commands and waits for the running ones, which end because the machine's context has ended.
func (t *processTable) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.work.Wait()
}

// add makes room for p and assigns its id.
func (t *processTable) add(p *background) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) >= maxProcesses {
		i := slices.IndexFunc(t.list, func(p *background) bool { return !p.snapshot().Running })
		if i < 0 {
			return fmt.Errorf("start process: %d are running, which is the limit; kill one first", maxProcesses)
		}
		t.list = slices.Delete(t.list, i, i+1)
	}
	t.last++
	p.view.ID = fmt.Sprintf("p%d", t.last)
	t.list = append(t.list, p)
	return nil
}

func (t *processTable) remove(p *background) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = slices.DeleteFunc(t.list, func(q *background) bool { return p == q })
}

func (t *processTable) get(id string) (*background, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.list {
		if p.view.ID == id {
			return p, nil
		}
	}
	return nil, fmt.Errorf("find process %q: %w", id, ErrNotFound)
}

func (t *processTable) all() []*background {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.list)
}

func (p *background) snapshot() Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view
}

func (p *background) finish(r Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.view.Running, p.view.Result = false, &r
	close(p.done)
}

// Running returns the number of running background processes.
func (h *Host) Running() int {
	list, _ := h.Processes(context.Background())
	return len(slices.DeleteFunc(list, func(p Process) bool { return !p.Running }))
}

// Start implements Machine. The context is for starting only: the process lives until it ends, is killed, reaches its own timeout, or the
// machine is closed.
func (h *Host) Start(ctx context.Context, cmd Command) (Process, error) {
	if err := h.table.enter(); err != nil {
		return Process{}, err
	}
	p, err := h.launch(ctx, cmd)
	if err != nil {
		h.table.leave()
		return Process{}, err
	}
	return p.snapshot(), nil
}

func (h *Host) launch(ctx context.Context, cmd Command) (*background, error) {
	spec, err := h.prepare(ctx, cmd)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(h.life)
	abandon := func() {
		cancel()
		h.removeHome(spec)
	}
	p := &background{
		cancel: cancel,
		done:   make(chan struct{}),
		view:   Process{Script: cmd.Script, Started: time.Now(), Running: true},
	}
	if err := h.config.Quota.Process(func() error { return h.table.add(p) }); err != nil {
		abandon()
		return nil, err
	}
	r, err := start(spec, tee{&p.output, progress(cmd.Progress)}, nil)
	if err != nil {
		h.table.remove(p)
		p.finish(Result{ExitCode: -1})
		abandon()
		return nil, err
	}
	p.mu.Lock()
	p.view.PID = r.cmd.Process.Pid
	p.mu.Unlock()
	go func() { // Close waits for it, through the table
		defer h.table.leave()
		defer cancel()
		result := r.wait(life, cmd.Timeout, h.config.Grace)
		h.removeHome(spec)
		h.complain(result)
		p.finish(result)
	}()
	return p, nil
}

// tee keeps joined output in a ring and reports it, as stdout.
type tee struct {
	output *ring.Buffer
	report func(Stream, []byte)
}

func (t tee) take(p []byte) {
	_, _ = t.output.Write(p) // never fails
	t.report(Stdout, slices.Clone(p))
}

// Processes implements Machine: oldest first, including ended ones that are still kept.
func (h *Host) Processes(ctx context.Context) ([]Process, error) {
	var list []Process
	for _, p := range h.table.all() {
		list = append(list, p.snapshot())
	}
	return list, ctx.Err()
}

// Output implements Machine. A max of zero or less means maxOutputRead.
func (h *Host) Output(ctx context.Context, id string, offset int64, max int) (Output, error) {
	p, err := h.table.get(id)
	if err != nil {
		return Output{}, err
	}
	if max <= 0 || max > maxOutputRead {
		max = maxOutputRead
	}
	// Checked before reading: an ended process has written everything that the read then returns.
	running := p.snapshot().Running
	data, first, dropped := p.output.Read(offset, max)
	return Output{Data: data, Offset: first, Next: first + int64(len(data)), Dropped: dropped, Running: running}, ctx.Err()
}

// Kill implements Machine. Killing a process that has ended returns its result.
func (h *Host) Kill(ctx context.Context, id string) (Process, error) {
	p, err := h.table.get(id)
	if err != nil {
		return Process{}, err
	}
	p.cancel()
	select {
	case <-p.done:
		return p.snapshot(), nil
	case <-ctx.Done():
		return p.snapshot(), fmt.Errorf("kill process %s: it is ending: %w", id, ctx.Err())
	}
}
