package sandbox

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/executor"
	"github.com/flynnhost/flynn/host/sandbox/launch"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Session is a conversation's sandbox: a lasting workspace and a container that comes and goes. Each method finds a live container or has
// one created; when a container dies, the calls in it fail with machine.ErrUnavailable, and the next call gets a new one.
type Session struct {
	m       *Manager
	session message.WorkspaceKey // the conversation's id
	name    string               // the sandbox's name
	spec    spec.Spec
	hash    string
	timeout atomic.Int64 // for commands that set none; the only part of spec that may change

	succession sync.Mutex // held while replaced ends
	replaced   *Session   // with another specification, or nil: it ends before this one begins

	mu      sync.Mutex
	launch  *pending // the last container, or nil
	retired bool     // no further calls are accepted
}

var (
	_ machine.Machine = (*Session)(nil)
	_ machine.Closer  = (*Session)(nil)
	_ machine.Talker  = (*Session)(nil)
)

// ImageProcess is the id of the process that Spec.Start requests, among a session's background processes.
const ImageProcess = executor.ImageProcess

func newSession(m *Manager, session message.WorkspaceKey, name string, wanted spec.Spec, hash string) *Session {
	s := &Session{m: m, session: session, name: name, spec: wanted, hash: hash}
	s.timeout.Store(int64(wanted.Timeout))
	return s
}

func (s *Session) key() key { return key{s.session, s.name} }

// folder returns the name of the session's workspace, or of a separate one.
func (s *Session) folder() message.WorkspaceKey {
	return message.WorkspaceKey(s.spec.Folder(string(s.session), s.name))
}

// pending is a container that is being created or was created.
type pending struct {
	making  context.Context    // its notices go to all waiting callers
	cancel  context.CancelFunc // stops waiting for the image
	waiting machine.Audience

	done      chan struct{}
	container *container.Container // valid once done is closed, like err
	err       error
	before    *container.Container // the one that this one replaces; valid once done is closed
	admitted  atomic.Bool          // it counts as a container already

	// The session's mu guards these.
	made  bool // done is closed
	calls int  // waiting for it
}

func newPending() *pending {
	p := &pending{done: make(chan struct{})}
	p.making, p.cancel = context.WithCancel(machine.WithNotice(context.Background(), p.waiting.Tell))
	return p
}

// await waits until the container exists or its creation has failed.
func (p *pending) await(ctx context.Context) error {
	select {
	case <-p.done: // always, except for the first call
		return p.err
	default:
	}
	defer p.waiting.Join(ctx)()
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// last returns the last container that existed, once done is closed.
func (p *pending) last() *container.Container {
	switch {
	case p == nil:
		return nil
	case p.err != nil:
		return p.before
	}
	return p.container
}

// enter counts a call, and reports false if the container can no longer be used. The session's mu is held.
func (p *pending) enter() bool {
	switch {
	case p == nil:
		return false
	case p.made:
		return p.err == nil && p.container.Enter(1)
	}
	p.calls++
	return true
}

// complete passes the container to the waiting calls, which enter it at once.
func (s *Session) complete(p *pending, c *container.Container, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.container, p.err, p.made = c, err, true
	if err == nil {
		c.Enter(p.calls)
	}
	close(p.done)
}

// acquire returns a live, resumed container, and a function to call when done with it. The creation is independent of ctx: if the caller
// leaves, the next call finds the container.
func (s *Session) acquire(ctx context.Context) (*container.Container, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	p, err := s.join()
	if err != nil {
		return nil, nil, err
	}
	if err := p.await(ctx); err != nil {
		s.release(p)
		return nil, nil, err
	}
	p.container.Wake()
	if err := p.container.RefreshWorkspace(ctx); err != nil {
		s.release(p)
		return nil, nil, err
	}
	return p.container, func() { s.release(p) }, nil
}

// join counts the caller and returns the container to wait for, starting a new one if the last has failed or died.
func (s *Session) join() (*pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return nil, launch.ErrClosed
	}
	if !s.launch.enter() {
		p := newPending()
		p.calls = 1
		if err := s.m.begin(s, p, s.launch); err != nil {
			return nil, err
		}
		s.launch = p
	}
	return s.launch, nil
}

// release counts the caller out.
func (s *Session) release(p *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !p.made:
		p.calls--
	case p.err == nil:
		if p.container.Return() && time.Since(p.container.Born()) >= s.m.config.MaxAge && !p.container.Dead() {
			s.m.idle.lookSoon()
		}
	}
}

// retire refuses further calls, ends the container and waits until it is gone. After a failure it can be called again.
func (s *Session) retire() error {
	s.mu.Lock()
	again := s.retired
	s.retired = true
	p := s.launch
	s.mu.Unlock()
	if p == nil {
		return s.succeed()
	}
	p.cancel()
	<-p.done
	if p.err != nil {
		return s.succeed()
	}
	if again {
		return p.container.Settle()
	}
	return p.container.End()
}

// succeed ends the session that this one replaces: its processes may still write to the workspace.
func (s *Session) succeed() error {
	s.succession.Lock()
	defer s.succession.Unlock()
	if s.replaced == nil {
		return nil
	}
	if err := s.replaced.retire(); err != nil {
		return err
	}
	s.replaced = nil
	return nil
}

// leave retires the session if its container is to outlive this host, and returns the container.
func (s *Session) leave() *container.Container {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.launch == nil || !s.launch.made || s.launch.err != nil || !s.launch.container.Leave() {
		return nil
	}
	s.retired = true
	return s.launch.container
}

// current returns the last container, which may have died; nil if there is none or it is being created.
func (s *Session) current() *container.Container {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.launch == nil || !s.launch.made {
		return nil
	}
	return s.launch.container
}

// lives reports whether the session has a container or is about to get one.
func (s *Session) lives() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.launch == nil:
		return false
	case s.launch.made:
		return s.launch.err == nil && !s.launch.container.Dead()
	}
	return s.launch.admitted.Load()
}

// Session returns the session whose sandbox it is.
func (s *Session) Session() message.WorkspaceKey { return s.session }

// Name implements machine.Machine.
func (s *Session) Name() string { return s.name }

// Close ends the session's container; its workspace stays.
func (s *Session) Close() error { return s.m.drop(s) }

// Exec implements machine.Machine. A timeout or a cancelled context is a result, not an error.
func (s *Session) Exec(ctx context.Context, cmd machine.Command) (machine.Result, error) {
	defer s.m.starts.take(ctx)()
	c, release, err := s.acquire(ctx)
	if err != nil {
		return machine.Result{}, err
	}
	defer release()
	c.Services.Attend(ctx)
	if cmd.Timeout <= 0 {
		cmd.Timeout = time.Duration(s.timeout.Load())
	}
	defer c.PullWorkspace(ctx)
	r, err := c.Exec(ctx, cmd)
	if err == nil {
		r.News = c.News()
	}
	return r, err
}

// execProgram runs a program without a shell; the script of cmd is ignored.
func (s *Session) execProgram(ctx context.Context, argv []string, cmd machine.Command) (machine.Result, error) {
	c, release, err := s.acquire(ctx)
	if err != nil {
		return machine.Result{}, err
	}
	defer release()
	defer c.PullWorkspace(ctx)
	return c.ExecProgram(ctx, argv, cmd)
}

// Start implements machine.Machine. Without a timeout in cmd there is none, and Progress is not called.
func (s *Session) Start(ctx context.Context, cmd machine.Command) (machine.Process, error) {
	c, release, err := s.acquire(ctx)
	if err != nil {
		return machine.Process{}, err
	}
	defer release()
	c.Services.Attend(ctx)
	p, err := c.Start(ctx, cmd, func(enter func() error) error { return s.m.config.Quota.Process(s.session, enter) })
	if err == nil {
		p.News = c.News()
		s.remember(c)
	}
	return p, err
}

// remember records the container for a later host. If that fails the process runs all the same, but ends with the host.
func (s *Session) remember(c *container.Container) {
	if s.m.here.Registry != nil {
		return // register has done so
	}
	err := c.Remember(container.Record{Host: s.m.here.Host.ID(), Session: s.session, Sandbox: s.name, Hash: s.hash, Spec: s.spec})
	if err != nil {
		s.m.config.Log.Warn("a background process will not outlast the host", "session", s.session, "error", err)
	}
}

// Spawn starts an interactive command, with a terminal if a size is given. It ends when ctx does. Progress, MaxOutput, Stdin and Spill of
// the command are ignored, and a Timeout of zero means none.
func (s *Session) Spawn(ctx context.Context, cmd machine.Command, terminal ...executor.Size) (*executor.Live, error) {
	_, l, err := s.spawn(ctx, cmd, terminal)
	return l, err
}

func (s *Session) spawn(ctx context.Context, cmd machine.Command, terminal []executor.Size) (*container.Container, *executor.Live, error) {
	c, release, err := s.acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	c.Services.Attend(ctx)
	l, err := c.Spawn(ctx, cmd, release, terminal...)
	return c, l, err
}

// Talk implements machine.Talker by Spawn.
func (s *Session) Talk(ctx context.Context, cmd machine.Command) (*machine.Live, error) {
	c, l, err := s.spawn(ctx, cmd, nil)
	if err != nil {
		return nil, err
	}
	leave := func() error {
		defer c.PullWorkspace(ctx)
		return l.Close()
	}
	return &machine.Live{Stdin: l.Stdin, Stdout: l.Stdout, Stderr: l.Stderr, Wait: l.Wait, Close: leave}, nil
}

// Processes implements machine.Machine.
func (s *Session) Processes(context.Context) ([]machine.Process, error) {
	c, err := s.existing()
	if err != nil {
		return []machine.Process{}, nil // without a container there are none
	}
	return append(c.List(), c.Services.Processes()...), nil
}

// Output implements machine.Machine. The last megabyte is kept.
func (s *Session) Output(ctx context.Context, id string, offset int64, max int) (machine.Output, error) {
	c, release, err := s.rouse()
	if err != nil {
		return machine.Output{}, err
	}
	defer release()
	if c.Services.Has(id) {
		return c.Services.Output(ctx, id, offset, max)
	}
	return c.Output(ctx, id, offset, max)
}

// Kill implements machine.Machine.
func (s *Session) Kill(ctx context.Context, id string) (machine.Process, error) {
	c, release, err := s.rouse()
	if err != nil {
		return machine.Process{}, err
	}
	defer release()
	if err := noService(c, id); err != nil {
		return machine.Process{}, err
	}
	return c.Kill(ctx, id)
}

// Signal sends a signal to a background process and its group.
func (s *Session) Signal(ctx context.Context, id string, sig syscall.Signal) error {
	c, release, err := s.rouse()
	if err != nil {
		return err
	}
	defer release()
	if err := noService(c, id); err != nil {
		return err
	}
	return c.Signal(id, sig)
}

// Wait waits for a background process to end.
func (s *Session) Wait(ctx context.Context, id string) (machine.Process, error) {
	c, err := s.existing()
	if err == nil {
		err = noService(c, id)
	}
	if err != nil {
		return machine.Process{}, err
	}
	return c.Wait(ctx, id)
}

// noService refuses the id of a service.
func noService(c *container.Container, id string) error {
	if c.Services.Has(id) {
		return fmt.Errorf("%w: %s is a service, which ends with the sandbox", machine.ErrNotFound, id)
	}
	return nil
}

// errNotRunning is the error of calls about processes without a container. They do not create one.
var errNotRunning = fmt.Errorf("%w: no background process: the sandbox is not running", machine.ErrNotFound)

// existing returns the existing container.
func (s *Session) existing() (*container.Container, error) {
	c := s.current()
	if c == nil || c.Dead() {
		return nil, errNotRunning
	}
	c.Touch()
	return c, nil
}

// rouse returns the existing container, resumed, and a function to call when done with it.
func (s *Session) rouse() (*container.Container, func(), error) {
	s.mu.Lock()
	p := s.launch
	there := p != nil && p.made && p.enter()
	s.mu.Unlock()
	if !there {
		return nil, nil, errNotRunning
	}
	p.container.Wake()
	return p.container, func() { s.release(p) }, nil
}
