package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/link"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// greetTimeout bounds the time from a container's start to its supervisor's welcome.
const greetTimeout = 20 * time.Second

// launch creates a container, starts it and verifies its supervisor. After a failure nothing is left, or a leftover is found by its label
// at the next start.
func (l *Launcher) launch(ctx context.Context, o *launchSpec) (_ *container.Container, err error) {
	defer o.mounts.release()
	defer func() {
		if err != nil {
			o.ownership.End()
		}
	}()
	if err := l.offerConnection(o); err != nil {
		return nil, err
	}
	if err := o.mounts.place(ctx, o); err != nil {
		return nil, err
	}
	created := machine.NoticeSlow(ctx, "creating the sandbox: the engine has not answered yet")
	id, err := l.engine.create(ctx, o.container)
	created()
	if err != nil {
		l.config.Reaper.Abandon(o.container.Name, err)
		return nil, err
	}
	c := container.New(container.Config{
		ID: id, Spec: o.container.Labels[driver.LabelSpec], Image: o.container.Image, Workspace: o.workspace,
		Session: message.WorkspaceKey(o.container.Labels[driver.LabelSession]), Born: time.Now(),
		Driver: l.config.Driver, Reaper: l.config.Reaper, Ownership: o.ownership, Sync: o.sync, Log: l.log,
	})
	started := machine.NoticeSlow(ctx, "starting the sandbox: the engine has not answered yet")
	err = l.boot(ctx, c, o)
	started()
	if err != nil {
		l.config.Reaper.Abandon(id, nil)
		return nil, err
	}
	if err = l.startProject(ctx, c, o); err == nil {
		err = c.PushWorkspace(ctx)
	}
	if err != nil {
		c.Abort()
		err = errors.Join(err, c.Services.Remove())
		l.config.Reaper.Abandon(id, nil)
		return nil, err
	}
	o.ownership.Begin()
	c.Serve()
	return c, nil
}

// open starts the container and connects to its supervisor.
func (l *Launcher) open(ctx context.Context, c *container.Container, o *launchSpec) (driver.Stream, error) {
	if o.ownership.Dialed() {
		if err := l.config.Driver.Start(ctx, c.ID()); err != nil {
			return nil, err
		}
		stream, at, err := o.ownership.Dial(ctx, l.config.Driver, l.config.Instance, c.ID())
		o.networked = at.Network == "tcp"
		return stream, err
	}
	stdio, err := l.config.Driver.Attach(ctx, c.ID(), &stderrLog{log: l.log, container: c.ID()})
	if err != nil {
		return nil, err
	}
	if err := l.config.Driver.Start(ctx, c.ID()); err != nil {
		stdio.Close()
		return nil, err
	}
	return stdio, nil
}

// boot starts the container and greets its supervisor.
func (l *Launcher) boot(ctx context.Context, c *container.Container, o *launchSpec) error {
	stdio, err := l.open(ctx, c, o)
	if err != nil {
		return err
	}
	watchdog := time.AfterFunc(greetTimeout, func() { stdio.Close() })
	defer watchdog.Stop()
	reader := frame.NewReader(stdio, frame.HostSide)
	welcome, err := link.Greet(stdio, reader, o.hello)
	if err == nil {
		err = checkWelcome(welcome, o, l.capabilities())
	}
	stream := stdio
	_, direct := l.config.Driver.(driver.Direct)
	switch {
	case err == nil && welcome.ControlSocket && !direct:
		stream, reader, err = changeStream(stdio, o.ownership)
	case !welcome.ControlSocket && !o.ownership.Dialed():
		o.ownership.NoLease() // the supervisor could not be found again
	}
	if err != nil {
		stdio.Close()
		return fmt.Errorf("%w: supervisor of image %s does not start properly: %w", machine.ErrUnavailable, o.container.Image, err)
	}
	c.Connect(stream, l.handlers(c, o.spec, o.proxy, o.hello.Bridge), o.spec.WorkspaceDir, welcome.Shell)
	go c.Link.Serve(reader)
	return nil
}

// changeStream switches the frames to the control socket that the supervisor claims to have connected to.
func changeStream(stdio driver.Stream, o *container.Ownership) (driver.Stream, *frame.Reader, error) {
	conn, err := o.Accept()
	if err != nil {
		return nil, nil, err
	}
	return container.NewControlStream(conn, stdio), frame.NewReader(conn, frame.HostSide), nil
}

// handlers returns the handlers of the connections that the container's supervisor opens.
func (l *Launcher) handlers(c *container.Container, s spec.Spec, proxy *egress.Config, bridges bool) map[frame.ConnectKind]link.Handler {
	handlers := make(map[frame.ConnectKind]link.Handler)
	if proxy != nil { // decisions are recorded for the session that has the container by then
		proxy.Log = l.log.With("container", c.ID())
		proxy.Decided = func(d egress.Decision) { l.config.Egress.Decided(c.Session(), d) }
		proxy.Ended = func(d egress.Decision) { l.config.Egress.Ended(c.Session(), d) }
		handlers[frame.ToProxy] = egress.New(*proxy).Serve
	}
	if bridges {
		handlers[frame.ToBridge] = l.config.Bridges.Server(c, s).Serve
	}
	return handlers
}

// Capability bits of the supervisor; see capabilities(7).
const (
	capKill   = 1 << 5
	capSetgid = 1 << 6
	capSetuid = 1 << 7
	capAll    = capKill | capSetgid | capSetuid
)

// capabilities returns those that a supervisor may have.
func (l *Launcher) capabilities() uint64 {
	if c, ok := l.config.Driver.(driver.Confiner); ok {
		return c.SupervisorCapabilities()
	}
	return capAll
}

// checkWelcome compares what the supervisor sees with the launch specification. Other runtimes fake parts of /proc, so with those only the
// identity is checked.
func checkWelcome(w frame.WelcomeBody, o *launchSpec, capabilities uint64) error {
	switch {
	case len(w.Shell) > 100:
		return errors.New("it names no valid shell")
	case w.Version != frame.Version:
		return fmt.Errorf("it speaks protocol version %d, not %d", w.Version, frame.Version)
	case w.Bridge != o.hello.Bridge:
		return errors.New("it offers no bridge, or one that was not requested")
	case w.Proxy != o.hello.Proxy:
		return errors.New("it offers no proxy, or one that was not requested")
	case w.PID != 1 || w.Nonce != o.nonce:
		return fmt.Errorf("it is process %d of another container", w.PID)
	case o.container.Runtime != "":
		return nil
	case !w.NoNewPrivs || w.CapEff&^capabilities != 0 || w.CapBnd&^capabilities != 0:
		return fmt.Errorf("it has too many privileges (capabilities %#x, bounding set %#x)", w.CapEff, w.CapBnd)
	case !w.RootReadOnly:
		return errors.New("the root file system is writable")
	case !w.WorkspaceMount:
		return fmt.Errorf("%s is not mounted", o.hello.Workspace)
	case o.container.Network == "none" && !o.networked && len(w.Interfaces) > 1:
		return fmt.Errorf("the network is off, but there are interfaces %v", w.Interfaces)
	}
	return o.mounts.verify(w)
}

// stderrLog logs the supervisor's own error messages, which are few and short.
type stderrLog struct {
	log       *slog.Logger
	container string
	written   int
}

// maxStderr bounds what one container may write to the log.
const maxStderr = 16 << 10

func (s *stderrLog) Write(p []byte) (int, error) {
	if s.written < maxStderr {
		s.written += len(p)
		s.log.Warn("message of a sandbox supervisor", "container", s.container, "text", string(p[:min(len(p), maxStderr)]))
	}
	return len(p), nil
}
