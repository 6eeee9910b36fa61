package sandbox

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Session is a conversation's sandbox: a workspace that lasts and a container that comes and goes. Each
// method finds a live container or has one made; a container that dies fails the calls that
// are in it with machine.ErrUnavailable, and the next call gets a new one.
type Session struct {
	m       *Manager
	session string // the conversation's id
	name    string // the sandbox's name
	spec    spec.Spec
	hash    string
	timeout atomic.Int64 // of commands that name none; the only part of spec that may change

	mu      sync.Mutex
	launch  *pending // the latest container, or nil
	active  int      // calls under way
	used    time.Time
	retired bool // no further calls
}

var (
	_ machine.Machine = (*Session)(nil)
	_ machine.Closer  = (*Session)(nil)
)

// pending is a container that is being made, or has been.
type pending struct {
	making  context.Context    // its notices go to all who wait
	cancel  context.CancelFunc // ends the wait for the image
	waiting machine.Audience

	done chan struct{}
	box  *box // valid once done is closed, as is err
	err  error
	// before is the box that this one replaces; valid once done is closed.
	before   *box
	admitted atomic.Bool // it counts as a container already
	over     bool        // it is being ended for idleness; the session's mu guards it
}

func newPending() *pending {
	p := &pending{done: make(chan struct{})}
	p.making, p.cancel = context.WithCancel(machine.WithNotice(context.Background(), p.waiting.Tell))
	return p
}

// await waits until the container is there, or is known not to come.
func (p *pending) await(ctx context.Context) error {
	select {
	case <-p.done: // as always but for the first call
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

// last is the latest box there was, once done is closed.
func (p *pending) last() *box {
	switch {
	case p == nil:
		return nil
	case p.err != nil:
		return p.before
	}
	return p.box
}

// errRetired is what calls get after Destroy or Close.
var errRetired = fmt.Errorf("%w: the session's sandbox was closed", machine.ErrUnavailable)

// acquire returns a live box that is awake, and what to call when done with it.
func (s *Session) acquire(ctx context.Context) (*box, func(), error) {
	b, release, err := s.await(ctx)
	if err == nil {
		b.endPause()
	}
	return b, release, err
}

// await returns a live box. Making one is not tied to ctx: if the caller leaves, the next call finds it.
func (s *Session) await(ctx context.Context) (*box, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	p, err := s.join()
	if err != nil {
		return nil, nil, err
	}
	if err := p.await(ctx); err != nil {
		s.release()
		return nil, nil, err
	}
	return p.box, s.release, nil
}

// join counts the caller in and returns the container to wait for, beginning a new one if the
// latest has failed or died.
func (s *Session) join() (*pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return nil, errRetired
	}
	s.active++
	s.used = time.Now()
	if s.launch == nil || s.launch.spent() {
		p := newPending()
		if err := s.m.begin(s, p, s.launch); err != nil {
			s.active--
			return nil, err
		}
		s.launch = p
	}
	return s.launch, nil
}

// spent reports whether the container is of no further use.
func (p *pending) spent() bool {
	select {
	case <-p.done:
		return p.err != nil || p.over || p.box.link.Dead()
	default:
		return false
	}
}

func (s *Session) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	s.used = time.Now()
	if s.active == 0 && s.launch != nil && !s.launch.spent() && s.launch.isOld(s.m.config.MaxAge) {
		s.m.lookSoon()
	}
}

// isOld reports whether a container has reached its age.
func (p *pending) isOld(age time.Duration) bool {
	select {
	case <-p.done:
		return time.Since(p.box.born) >= age
	default:
		return false
	}
}

// retire refuses further calls, ends the container and waits until it is gone.
func (s *Session) retire() error {
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
	return s.evict()
}

// evict ends the container, if there is one; the session may get another.
func (s *Session) evict() error {
	s.mu.Lock()
	p := s.launch
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	p.cancel()
	<-p.done
	if p.err != nil {
		return nil
	}
	return p.box.remove(errEnded)
}

// idleSince says since when nothing has been going on, if so.
func (s *Session) idleSince() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active > 0 || s.launch == nil || s.launch.spent() {
		return time.Time{}, false
	}
	select {
	case <-s.launch.done:
		return s.used, !s.launch.box.running()
	default:
		return time.Time{}, false
	}
}

// dismissIdle takes the container from the session if it is still idle: the next call gets another one, and none can come
// to this one any more.
func (s *Session) dismissIdle() *box {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active > 0 || s.launch == nil || s.launch.spent() {
		return nil
	}
	s.launch.over = true
	return s.launch.box
}

// born is when the session's container was made; idleSince must have said that there is one.
func (s *Session) born() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.launch.box.born
}

// Name implements machine.Machine.
func (s *Session) Name() string { return s.name }

// Close ends the session's container; its workspace stays.
func (s *Session) Close() error { return s.m.drop(s) }

// Exec implements machine.Machine. A time-out or a cancelled context is a verdict, not an error.
func (s *Session) Exec(ctx context.Context, cmd machine.Command) (machine.Result, error) {
	defer s.m.starts.take(ctx)()
	b, release, err := s.acquire(ctx)
	if err != nil {
		return machine.Result{}, err
	}
	defer release()
	b.project.attend(ctx)
	if cmd.Timeout <= 0 {
		cmd.Timeout = time.Duration(s.timeout.Load())
	}
	defer b.bringHome(ctx)
	r, err := b.exec(ctx, cmd, s.spec.WorkspaceDir)
	if err == nil {
		r.News = b.news()
	}
	return r, err
}

// Start implements machine.Machine. A command without a time-out of its own has none, and Progress is
// not called.
func (s *Session) Start(ctx context.Context, cmd machine.Command) (machine.Process, error) {
	b, release, err := s.acquire(ctx)
	if err != nil {
		return machine.Process{}, err
	}
	defer release()
	b.project.attend(ctx)
	p, err := b.start(ctx, cmd, s)
	if err == nil {
		p.News = b.news()
		s.remember(b)
	}
	return p, err
}

// Processes implements machine.Machine.
func (s *Session) Processes(context.Context) ([]machine.Process, error) {
	b, err := s.existing()
	if err != nil {
		return []machine.Process{}, nil // without a container there are none
	}
	return append(b.list(), b.project.processes()...), nil
}

// Output implements machine.Machine. The last megabyte is kept.
func (s *Session) Output(ctx context.Context, id string, offset int64, max int) (machine.Output, error) {
	b, release, err := s.rouse()
	if err != nil {
		return machine.Output{}, err
	}
	defer release()
	if service, is := b.project.service(id); is {
		return b.project.output(ctx, service, offset, max)
	}
	return b.output(ctx, id, offset, max)
}

// Kill implements machine.Machine.
func (s *Session) Kill(ctx context.Context, id string) (machine.Process, error) {
	b, release, err := s.rouse()
	if err != nil {
		return machine.Process{}, err
	}
	defer release()
	return b.kill(ctx, id)
}

// Signal sends a signal to a background process and its group.
func (s *Session) Signal(ctx context.Context, id string, sig syscall.Signal) error {
	b, release, err := s.rouse()
	if err != nil {
		return err
	}
	defer release()
	return b.signal(id, sig)
}

// Wait waits for a background process to end.
func (s *Session) Wait(ctx context.Context, id string) (machine.Process, error) {
	b, err := s.existing()
	if err != nil {
		return machine.Process{}, err
	}
	return b.wait(ctx, id)
}

// existing returns the box that is there; asking about processes makes none.
func (s *Session) existing() (*box, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.launch != nil && !s.launch.spent() {
		select {
		case <-s.launch.done:
			s.used = time.Now()
			return s.launch.box, nil
		default:
		}
	}
	return nil, fmt.Errorf("%w: no background process: the sandbox is not running", machine.ErrNotFound)
}

// rouse returns the box that is there, awake, and what to call when done with it.
func (s *Session) rouse() (*box, func(), error) {
	b, err := s.existing()
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	s.active++
	s.mu.Unlock()
	b.endPause()
	return b, s.release, nil
}
