// Package container manages one live container, from its creation or adoption until the engine has removed it.
//
// Start with Life (life.go), the states and events of a container, and Container, which acts on them: it counts calls, pauses an unused
// container, renews the lease and removes the container when its connection ends. ownership.go, record.go and controlsocket.go hold the
// state that outlives the host. Package executor runs commands in the container.
//
// The package does not create containers (package launch does), and knows sessions by name only.
package container

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/executor"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/link"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
	"github.com/flynnhost/flynn/host/sandbox/wssync"
)

// Config identifies a Container.
type Config struct {
	ID        string
	Spec      string // hash of the specification that it was made from
	Image     string
	Workspace string               // folder on the host
	Session   message.WorkspaceKey // "" while the container is in a pool; see Assign
	Born      time.Time

	Driver    driver.Driver
	Reaper    *reaper.Reaper
	Ownership *Ownership
	Sync      *wssync.Syncer // nil if the engine mounts the host's folder; see Carry
	Log       *slog.Logger
}

// Services run beside a container and end with it.
type Services interface {
	// Attend restarts the services that have failed since the last call.
	Attend(ctx context.Context)
	// News returns messages for callers about the services, each once.
	News() []string
	Processes() []machine.Process
	// Has reports whether a process id belongs to a service; Output reads the output of that service.
	Has(id string) bool
	Output(ctx context.Context, id string, offset int64, n int) (machine.Output, error)
	Remove() error
}

// noServices is used by containers without services.
type noServices struct{}

func (noServices) Attend(context.Context)       {}
func (noServices) News() []string               { return nil }
func (noServices) Processes() []machine.Process { return nil }
func (noServices) Has(string) bool              { return false }
func (noServices) Remove() error                { return nil }

func (noServices) Output(context.Context, string, int64, int) (machine.Output, error) {
	return machine.Output{}, machine.ErrNotFound
}

// Container is one live container. It serves one session only and is never revived: when its link fails, the container is removed and the
// session gets another one.
type Container struct {
	*executor.Executor // nil before Connect, like Link
	Link               *link.Link
	Services           Services

	gone    chan struct{} // closed once the container is removed or its removal has failed
	removal error         // valid once gone is closed
	pausing sync.Mutex    // held while the supervisor is told to pause or to resume

	mu        sync.Mutex // guards the fields below, never held over I/O
	config    Config     // only Session, Workspace and Sync change
	life      Life
	used      time.Time // when a call last began or ended
	onRemoved func()    // may be nil
}

// New returns a Container for one that the engine has created, not connected yet.
func New(c Config) *Container {
	return &Container{Services: noServices{}, config: c, gone: make(chan struct{}), life: Life{Phase: Starting}}
}

// Connect links the container to a supervisor that has proved its identity. The caller serves the link. dir is the workspace's path inside,
// and shell the program that runs scripts, "" if it is not known.
func (c *Container) Connect(stream driver.Stream, handlers map[frame.ConnectKind]link.Handler, dir, shell string) {
	c.Link = link.New(link.Config{Stream: stream, Lost: sync.OnceValue(c.whyLost), Hung: c.WhyHung, Handlers: handlers})
	c.Executor = executor.New(c.Link, c, dir, shell)
}

// Serve admits calls and starts watching the container.
func (c *Container) Serve() {
	c.mu.Lock()
	c.used = time.Now()
	c.life, _ = c.life.Step(Served)
	c.mu.Unlock()
	go c.watch()
}

// step applies an event and reports whether it was possible.
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

// ID returns the engine's identifier.
func (c *Container) ID() string { return c.config.ID }

// Spec returns the hash of the specification that the container was made from.
func (c *Container) Spec() string { return c.config.Spec }

// Image returns the image that it was made from.
func (c *Container) Image() string { return c.config.Image }

// Born returns when the container was created.
func (c *Container) Born() time.Time { return c.config.Born }

// Key returns the container's key, which is unique among all processes.
func (c *Container) Key() string { return c.config.Ownership.key }

// Session returns the session that the container serves, "" while it is in a pool.
func (c *Container) Session() message.WorkspaceKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config.Session
}

// Workspace returns the folder on the host that the container works in.
func (c *Container) Workspace() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config.Workspace
}

// Assign gives a pooled container to a session. If workspace is not "", the folder has been moved there.
func (c *Container) Assign(session message.WorkspaceKey, workspace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config.Session, c.used = session, time.Now()
	if workspace != "" {
		c.config.Workspace = workspace
	}
}

// Dead reports whether the container can no longer be used.
func (c *Container) Dead() bool {
	if c.Link.Dead() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.life.Live()
}

// Enter counts calls that begin; each must end with Return. It reports false if the container can no longer be used. The caller must call
// Wake before anything runs in it.
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

// Return counts the end of a call and reports whether it was the last one.
func (c *Container) Return() (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = time.Now()
	c.life, _ = c.life.Step(Returned)
	return c.life.Calls == 0
}

// Touch marks the container as used now.
func (c *Container) Touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = time.Now()
}

// Idle returns since when the container has been idle, if it is.
func (c *Container) Idle() (since time.Time, ok bool) {
	if c.Dead() {
		return time.Time{}, false
	}
	c.mu.Lock()
	since, ok = c.used, c.life.Calls == 0
	c.mu.Unlock()
	return since, ok && !c.Running()
}

// Dismiss marks the container as ending unless a call is under way; no call can enter it afterwards. The caller must call Remove then.
func (c *Container) Dismiss() bool { return !c.Link.Dead() && c.step(Dismissed) }

// errEnded is the reason of a regular removal.
var errEnded = errors.New("it was ended")

// End removes the container and returns once it is gone.
func (c *Container) End() error {
	defer c.config.Reaper.Slot()()
	c.PullWorkspace(context.Background())
	return c.remove(errEnded)
}

// Remove removes the container, failing its calls with reason, and returns once it is gone.
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

// Abort closes the link of a container that was never served or cannot be used. It becomes a leftover.
func (c *Container) Abort() { c.Link.Close(errEnded) }

// removeTimeout bounds the removal of a container, including all retries.
const removeTimeout = 60 * time.Second

// watch renews the lease until the link ends for any reason, then removes the container.
func (c *Container) watch() {
	defer close(c.gone)
	c.renewUntilDone()
	if errors.Is(c.Link.Err(), frame.ErrTaken) && c.step(Taken) {
		c.config.Log.Warn("another host has taken a sandbox over", "container", c.config.ID, "session", c.Session())
		c.config.Ownership.Yield()
		c.tellRemoved()
		return
	}
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
	if s := c.sync(); s != nil {
		s.Discard()
	}
	if c.step(Removed) {
		c.tellRemoved()
	}
	return nil
}

// tellRemoved calls what OnceRemoved has registered.
func (c *Container) tellRemoved() {
	c.mu.Lock()
	then := c.onRemoved
	c.mu.Unlock()
	if then != nil {
		then()
	}
}

// Settle waits until the container is gone, so that nothing in it writes to the workspace.
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

// OnceRemoved registers a function to be called once the container has been removed successfully.
func (c *Container) OnceRemoved(then func()) {
	c.mu.Lock()
	c.onRemoved = then
	gone := c.life.Phase == Gone
	c.mu.Unlock()
	if gone {
		then()
	}
}

// Carry gives a pooled container with a disk of its own what synchronises it with the workspace of a session.
func (c *Container) Carry(s *wssync.Syncer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config.Sync = s
}

func (c *Container) sync() *wssync.Syncer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config.Sync
}

// PushWorkspace copies the host's folder to a container that does not mount it, before the first command runs.
func (c *Container) PushWorkspace(ctx context.Context) error {
	return c.push(ctx, (*wssync.Syncer).Begin)
}

// AdoptWorkspace is PushWorkspace for a container with which another host has worked.
func (c *Container) AdoptWorkspace(ctx context.Context) error {
	return c.push(ctx, (*wssync.Syncer).Adopt)
}

// RefreshWorkspace copies what another container of the session has changed since.
func (c *Container) RefreshWorkspace(ctx context.Context) error {
	return c.push(ctx, (*wssync.Syncer).Refresh)
}

func (c *Container) push(ctx context.Context, way func(*wssync.Syncer, context.Context, wssync.Volume) error) error {
	s := c.sync()
	if s == nil {
		return nil
	}
	if err := way(s, ctx, c.Link); err != nil {
		return fmt.Errorf("copy the workspace to the sandbox: %w", err)
	}
	return nil
}

// PullWorkspace copies the changes of commands on an engine elsewhere back to the host's folder.
func (c *Container) PullWorkspace(ctx context.Context) {
	if err := c.FetchWorkspace(ctx); err != nil {
		c.config.Log.Warn("cannot copy a workspace back; trying again", "container", c.config.ID, "error", err)
	}
}

// FetchWorkspace is PullWorkspace for callers that need to know whether the host's folder has all changes.
func (c *Container) FetchWorkspace(ctx context.Context) error {
	s := c.sync()
	if s == nil || c.Link.Dead() {
		return nil
	}
	return s.Fetch(ctx, c.Link)
}

// News returns messages for callers about the container, each once.
func (c *Container) News() []string {
	lines := c.Services.News()
	if line := c.Introduce(); line != "" {
		lines = append(lines, line)
	}
	return lines
}

// askTimeout bounds a question to the engine for the text of an error: calls wait for it.
const askTimeout = 5 * time.Second

// whyLost returns the error that people see when the container's connection has ended by itself.
func (c *Container) whyLost() error {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if err := c.config.Driver.Ping(ctx); err != nil {
		return errors.New(machine.Reason(err))
	}
	where := ""
	if l, ok := c.config.Driver.(driver.Locator); ok {
		where = " on engine " + l.Address()
	}
	return fmt.Errorf("its container ended%s: the next command gets a new one", where)
}

// ErrPaused is the error for a container that does not answer because somebody else has paused it.
var ErrPaused = errors.New("somebody has paused its container on the engine")

// WhyHung returns ErrPaused if the engine reports the container as paused, which this host never asks for.
func (c *Container) WhyHung() error {
	d, can := c.config.Driver.(driver.Services)
	if !can {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if state, err := d.Condition(ctx, c.config.ID); err == nil && state.Paused {
		return ErrPaused
	}
	return nil
}
