// Package container keeps one live container from the moment at which it is made, or adopted, to the moment at which the engine does not
// have it any more.
//
// Start with Life (life.go), which says what can happen to a container and in which order, and Container, which does what belongs to each
// step: it counts calls in, pauses what nobody uses, renews the lease and removes the container when its connection ends. What outlasts
// the host is in ownership.go, record.go and controlsocket.go. Package executor runs commands in it.
//
// The package does not make containers (package launch does) and knows no sessions but by their names.
package container

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/executor"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/link"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
	"github.com/flynnhost/flynn/host/sandbox/wssync"
)

// Config is what a Container is known by.
type Config struct {
	ID        string
	Spec      string // the hash of what it was made from
	Image     string
	Workspace string // the folder on the host
	Session   string // "" while the container is in a pool; see Assign
	Born      time.Time

	Driver    driver.Driver
	Reaper    *reaper.Reaper
	Ownership *Ownership
	Sync      *wssync.Syncer // nil where the engine sees the host's folder
	Log       *slog.Logger
}

// Services run beside a container and end with it.
type Services interface {
	// Attend starts those again that have failed since the last time.
	Attend(ctx context.Context)
	// News returns what callers should know of them, once.
	News() []string
	Processes() []machine.Process
	// Has reports whether an id of a process is that of a service, and Output reads what that one has written.
	Has(id string) bool
	Output(ctx context.Context, id string, offset int64, n int) (machine.Output, error)
	Remove() error
}

// noServices is what most containers have.
type noServices struct{}

func (noServices) Attend(context.Context)       {}
func (noServices) News() []string               { return nil }
func (noServices) Processes() []machine.Process { return nil }
func (noServices) Has(string) bool              { return false }
func (noServices) Remove() error                { return nil }

func (noServices) Output(context.Context, string, int64, int) (machine.Output, error) {
	return machine.Output{}, machine.ErrNotFound
}

// Container is one live container. It is used for one session only and never revived: when its link dies the container is removed, and the
// session gets another one.
type Container struct {
	*executor.Executor // nil before Connect, as is Link
	Link               *link.Link
	Services           Services

	gone    chan struct{} // closed once the container is removed, or removal has failed
	removal error         // valid once gone is closed
	pausing sync.Mutex    // held while the supervisor is told to pause, or to go on

	mu        sync.Mutex // guards the fields below, never held over I/O
	config    Config     // of which only Session and Workspace change
	life      Life
	used      time.Time // when a call last began or ended
	onRemoved func()    // or nil
}

// New returns a container that the engine has made and that is not connected yet.
func New(c Config) *Container {
	return &Container{Services: noServices{}, config: c, gone: make(chan struct{}), life: Life{Phase: Starting}}
}

// Connect makes the link to a supervisor that is known to be ours. The caller serves it. dir is where the workspace is inside, and shell
// what runs scripts, "" where that is not known.
func (c *Container) Connect(stream driver.Stream, handlers map[frame.ConnectKind]link.Handler, dir, shell string) {
	c.Link = link.New(link.Config{Stream: stream, Lost: sync.OnceValue(c.whyLost), Hung: c.WhyHung, Handlers: handlers})
	c.Executor = executor.New(c.Link, c, dir, shell)
}

// Serve has calls admitted, and the container watched from now on.
func (c *Container) Serve() {
	c.mu.Lock()
	c.used = time.Now()
	c.life, _ = c.life.Step(Served)
	c.mu.Unlock()
	go c.watch()
}

// step takes an event and reports whether it could happen.
func (c *Container) step(e Event) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life, ok = c.life.Step(e)
	return ok
}

func (c *Container) phase() Phase {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life.Phase
}

// ID is the engine's.
func (c *Container) ID() string { return c.config.ID }

// Spec is the hash of what the container was made from.
func (c *Container) Spec() string { return c.config.Spec }

// Image is what it was made of.
func (c *Container) Image() string { return c.config.Image }

// Born is when the container was made.
func (c *Container) Born() time.Time { return c.config.Born }

// Key names the container among those of all processes.
func (c *Container) Key() string { return c.config.Ownership.key }

// Session is the one that the container serves, "" while it is in a pool.
func (c *Container) Session() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config.Session
}

// Workspace is the host's folder that it works in.
func (c *Container) Workspace() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config.Workspace
}

// Assign gives a container of a pool to a session. The folder has been moved to workspace; "" leaves it where it is.
func (c *Container) Assign(session, workspace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config.Session, c.used = session, time.Now()
	if workspace != "" {
		c.config.Workspace = workspace
	}
}

// Dead reports whether the container is of no further use.
func (c *Container) Dead() bool {
	if c.Link.Dead() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.life.Live()
}

// Enter counts calls in, each of which has to end by Return. It reports false where the container is of no further use. The caller has to
// Wake the container before anything runs in it.
func (c *Container) Enter(calls int) bool {
	if c.Link.Dead() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = time.Now()
	for range calls {
		next, ok := c.life.Step(Entered)
		if !ok {
			return false
		}
		c.life = next
	}
	return c.life.Live()
}

// Return counts a call out, and reports whether it was the last.
func (c *Container) Return() (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = time.Now()
	c.life, _ = c.life.Step(Returned)
	return c.life.Calls == 0
}

// Touch has the container count as used now.
func (c *Container) Touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = time.Now()
}

// Idle returns since when nothing has been going on, if so.
func (c *Container) Idle() (since time.Time, ok bool) {
	if c.Dead() {
		return time.Time{}, false
	}
	c.mu.Lock()
	since, ok = c.used, c.life.Calls == 0
	c.mu.Unlock()
	return since, ok && !c.Running()
}

// Dismiss has the container end unless a call is under way: none can enter it any more. Remove has to follow.
func (c *Container) Dismiss() bool { return !c.Link.Dead() && c.step(Dismissed) }

// errEnded is the reason of an orderly end.
var errEnded = errors.New("it was ended")

// End removes the container in an orderly way, and returns once it is gone.
func (c *Container) End() error {
	defer c.config.Reaper.Slot()()
	c.PullWorkspace(context.Background())
	return c.remove(errEnded)
}

// Remove ends the container for a reason that calls in it get, and returns once it is gone.
func (c *Container) Remove(reason error) error {
	defer c.config.Reaper.Slot()()
	return c.remove(reason)
}

func (c *Container) remove(reason error) error {
	c.step(Ended)
	c.dismiss()
	c.Link.Close(reason)
	<-c.gone
	return c.removal
}

// Abort closes the link of a container that was never served, or that nobody may have after all. It is a leftover then.
func (c *Container) Abort() { c.Link.Close(errEnded) }

// removeTimeout bounds the removal of a container, all retries together.
const removeTimeout = 60 * time.Second

// watch renews the lease until the link ends, for whatever reason, and removes the container then.
func (c *Container) watch() {
	defer close(c.gone)
	c.renewUntilDone()
	c.step(Ended)
	if c.phase() == Detached {
		return
	}
	defer c.config.Ownership.End()
	c.removal = c.erase()
}

// erase removes the container and its services from the engine.
func (c *Container) erase() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	if err := errors.Join(c.Services.Remove(), c.config.Reaper.Remove(ctx, c.config.ID)); err != nil {
		return err
	}
	c.mu.Lock()
	next, ok := c.life.Step(Removed)
	c.life = next
	then := c.onRemoved
	c.mu.Unlock()
	if ok && then != nil {
		then()
	}
	return nil
}

// Settle makes sure that the container is gone, so that nothing in it writes to the workspace any more.
func (c *Container) Settle() error {
	if c == nil {
		return nil
	}
	<-c.gone
	if c.removal == nil || c.phase() == Gone {
		return nil
	}
	return c.erase()
}

// OnceRemoved has then called when the container is removed, and never before that has succeeded.
func (c *Container) OnceRemoved(then func()) {
	c.mu.Lock()
	c.onRemoved = then
	gone := c.life.Phase == Gone
	c.mu.Unlock()
	if gone {
		then()
	}
}

// PushWorkspace makes the volume of an engine on another machine and the host's folder the same before the first command runs.
func (c *Container) PushWorkspace(ctx context.Context) error {
	if c.config.Sync == nil {
		return nil
	}
	if err := c.config.Sync.Begin(ctx, c.Link); err != nil {
		return fmt.Errorf("carry the workspace to the sandbox: %w", err)
	}
	return nil
}

// PullWorkspace brings what commands have changed on an engine elsewhere into the host's folder.
func (c *Container) PullWorkspace(ctx context.Context) {
	if c.config.Sync == nil || c.Link.Dead() {
		return
	}
	if err := c.config.Sync.Fetch(ctx, c.Link); err != nil {
		c.config.Log.Warn("cannot copy a workspace home; trying again", "container", c.config.ID, "error", err)
	}
}

// News returns what callers should know about the container, once.
func (c *Container) News() []string {
	lines := c.Services.News()
	if line := c.Introduce(); line != "" {
		lines = append(lines, line)
	}
	return lines
}

// whyLost is the error that people see when the container's stream has ended by itself.
func (c *Container) whyLost() error {
	if err := c.config.Driver.Ping(context.Background()); err != nil {
		return errors.New(machine.Reason(err))
	}
	where := ""
	if l, ok := c.config.Driver.(driver.Locator); ok {
		where = " on engine " + l.Address()
	}
	return fmt.Errorf("its container ended%s: the next command gets a new one", where)
}

// ErrPaused is why a container that somebody else has paused answers nothing.
var ErrPaused = errors.New("somebody has paused its container on the engine")

// WhyHung is ErrPaused where the engine has the container paused, which this host never asks for.
func (c *Container) WhyHung() error {
	d, can := c.config.Driver.(driver.Services)
	if !can {
		return nil
	}
	if state, err := d.Condition(context.Background(), c.config.ID); err == nil && state.Paused {
		return ErrPaused
	}
	return nil
}
