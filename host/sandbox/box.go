package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/link"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
	"github.com/flynnhost/flynn/host/sandbox/wssync"
)

// box is one live container. It is used for one session only and never revived: when its link
// dies the container is removed and the session gets another box.
type box struct {
	driver    driver.Driver
	reaper    *reaper.Reaper
	log       *slog.Logger
	id        string
	spec      string // the hash of what it was made from
	image     string
	workspace string // the host's folder
	born      time.Time
	shell     string // that runs scripts; "" of a container that was taken over
	link      *link.Link
	ownership *ownership
	pause     pause
	project   *project       // or nil; its services go with the container
	sync      *wssync.Syncer // or nil, where the engine sees the host's folder
	gone      chan struct{}  // closed once the container is removed, or removal has failed
	removal   error          // valid once gone is closed

	introduced atomic.Bool // its shell was told

	mu        sync.Mutex
	session   string   // "" while the container is in the pool
	helping   *helping // of the program that runs, or nil
	processes map[string]*process
	started   int // background processes ever
	removed   bool
	onRemoved func() // or nil
}

// greetTimeout bounds the time from a container's start to its supervisor's welcome.
const greetTimeout = 20 * time.Second

// removeTimeout bounds the removal of a container, all retries together.
const removeTimeout = 60 * time.Second

// launchSpec is what launch needs to make a box.
type launchSpec struct {
	container driver.Container
	reaper    *reaper.Reaper
	hello     frame.HelloBody
	nonce     string
	workspace string
	mounts    mountSet
	ownership *ownership
	sync      *wssync.Syncer // or nil
	control   *controlSocket // or nil
	egress    *egress.Config // or nil, for no proxy
	watch     Egress
	bridges   func(b *box) *bridge.Server // or nil, for none
}

// launch makes a container, starts it and checks that its supervisor is where it should be. On
// failure nothing is left, or what is left is found by its label at the next start.
func launch(ctx context.Context, d driver.Driver, log *slog.Logger, o launchSpec) (*box, error) {
	defer o.mounts.release()
	if err := o.mounts.place(ctx, &o); err != nil {
		o.ownership.end()
		return nil, err
	}
	id, err := create(ctx, d, log, o.container)
	if err != nil {
		o.reaper.Abandon(o.container.Name, err)
		o.ownership.end()
		return nil, err
	}
	b := newBox(d, log, id, o)
	if err := b.boot(ctx, o); err != nil {
		o.reaper.Abandon(id, nil)
		o.ownership.end()
		return nil, err
	}
	if b.project, err = o.mounts.m.startProject(ctx, o, id); err == nil {
		err = b.beginHome(ctx)
	}
	if err != nil {
		b.link.Close(errEnded)
		err = errors.Join(err, b.project.remove())
		o.reaper.Abandon(id, nil)
		o.ownership.end()
		return nil, err
	}
	o.ownership.begin()
	go b.watch()
	return b, nil
}

func newBox(d driver.Driver, log *slog.Logger, id string, o launchSpec) *box {
	return &box{
		driver: d, reaper: o.reaper, log: log, id: id, spec: o.container.Labels[driver.LabelSpec], image: o.container.Image,
		workspace: o.workspace, born: time.Now(), ownership: o.ownership, sync: o.sync,
		gone: make(chan struct{}), session: o.container.Labels[driver.LabelSession], processes: make(map[string]*process),
	}
}

// boot attaches, starts and greets.
func (b *box) boot(ctx context.Context, o launchSpec) error {
	stdio, err := b.driver.Attach(ctx, b.id, &stderrLog{log: b.log, container: b.id})
	if err != nil {
		return err
	}
	if err := b.driver.Start(ctx, b.id); err != nil {
		stdio.Close()
		return err
	}
	watchdog := time.AfterFunc(greetTimeout, func() { stdio.Close() })
	defer watchdog.Stop()
	reader := frame.NewReader(stdio, frame.HostSide)
	welcome, err := link.Greet(stdio, reader, o.hello)
	if err == nil {
		err = checkWelcome(welcome, o)
	}
	stream := stdio
	if err == nil && welcome.ControlSocket {
		stream, reader, err = b.changeStream(stdio, o.control)
	} else {
		o.ownership.lease = 0 // the supervisor could not be found again
	}
	if err != nil {
		stdio.Close()
		return fmt.Errorf("%w: supervisor of image %s does not start properly: %w", machine.ErrUnavailable, o.container.Image, err)
	}
	b.shell = welcome.Shell
	b.connect(stream, o)
	go b.link.Serve(reader)
	return nil
}

// connect makes the link to a supervisor that is known to be ours. To serve it is left to the caller.
func (b *box) connect(stream driver.Stream, o launchSpec) {
	handlers := make(map[frame.ConnectKind]link.Handler)
	if o.egress != nil {
		handlers[frame.ToProxy] = b.proxy(o).Serve
	}
	if o.bridges != nil {
		handlers[frame.ToBridge] = o.bridges(b).Serve
	}
	b.link = link.New(link.Config{Stream: stream, Lost: sync.OnceValue(b.whyLost), Hung: b.whyHung, Handlers: handlers})
}

// proxy makes the proxy of this box, whose decisions concern the session that has it by then.
func (b *box) proxy(o launchSpec) *egress.Proxy {
	c := *o.egress
	c.Log = b.log.With("container", b.id)
	c.Decided = func(d egress.Decision) { o.watch.Decided(b.owner(), d) }
	c.Ended = func(d egress.Decision) { o.watch.Ended(b.owner(), d) }
	return egress.New(c)
}

// owner is the session that the box serves.
func (b *box) owner() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

func (b *box) serveSession(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session = session
}

// changeStream moves the frames to the control socket that the supervisor says it has taken.
func (b *box) changeStream(stdio driver.Stream, l *controlSocket) (driver.Stream, *frame.Reader, error) {
	if l == nil {
		return nil, nil, fmt.Errorf("%w: no control socket was offered", frame.ErrProtocol)
	}
	conn, err := l.accept()
	if err != nil {
		return nil, nil, fmt.Errorf("change to the control socket: %w", err)
	}
	if b.ownership.peer, err = peerUID(conn); err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("change to the control socket: %w", err)
	}
	return newControlStream(conn, stdio), frame.NewReader(conn, frame.HostSide), nil
}

// watch renews the lease until the link ends, for whatever reason, and removes the container then.
func (b *box) watch() {
	defer close(b.gone)
	b.renewUntilDone()
	if b.ownership.detached.Load() {
		return
	}
	defer b.ownership.end()
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	b.removal = errors.Join(b.project.remove(), b.reaper.Remove(ctx, b.id))
	if b.removal == nil {
		b.isRemoved()
	}
}

// isRemoved tells who waits for that.
func (b *box) isRemoved() {
	b.mu.Lock()
	b.removed = true
	then := b.onRemoved
	b.mu.Unlock()
	if then != nil {
		then()
	}
}

// onceRemoved has then called when the container is removed, and never before that has succeeded.
func (b *box) onceRemoved(then func()) {
	b.mu.Lock()
	b.onRemoved = then
	removed := b.removed
	b.mu.Unlock()
	if removed {
		then()
	}
}

// errEnded is the reason of an orderly end.
var errEnded = errors.New("it was ended")

// remove ends the box and waits until its container is gone.
func (b *box) remove(reason error) error {
	defer b.reaper.Slot()()
	if reason == errEnded {
		b.bringHome(context.Background())
	}
	b.dismiss()
	b.link.Close(reason)
	<-b.gone
	return b.removal
}

// news takes what a caller should know about the container and has not been told.
func (b *box) news() []string {
	lines := b.project.takeNews()
	if b.shell == "" || b.introduced.Swap(true) {
		return lines
	}
	line := "commands are run by " + b.shell
	if b.shell == plainShell {
		line += ", as the image has no bash"
	}
	return append(lines, line)
}

// plainShell runs scripts where the image has no bash; see package supervise.
const plainShell = "/bin/sh"

// Capability bits that the supervisor holds; see capabilities(7).
const (
	capKill   = 1 << 5
	capSetgid = 1 << 6
	capSetuid = 1 << 7
	capAll    = capKill | capSetgid | capSetuid
)

// checkWelcome compares what the supervisor sees with what was ordered. Other runtimes fake parts of
// /proc, so of them only the identity is asked.
func checkWelcome(w frame.WelcomeBody, o launchSpec) error {
	switch {
	case len(w.Shell) > 100:
		return errors.New("it tells no proper shell")
	case w.Version != frame.Version:
		return fmt.Errorf("it speaks protocol version %d, not %d", w.Version, frame.Version)
	case w.Bridge != o.hello.Bridge:
		return errors.New("it offers no bridge, or one that was not asked for")
	case w.Proxy != o.hello.Proxy:
		return errors.New("it offers no proxy, or one that was not asked for")
	case w.PID != 1 || w.Nonce != o.nonce:
		return fmt.Errorf("it is process %d of another container", w.PID)
	case o.container.Runtime != "":
		return nil
	case !w.NoNewPrivs || w.CapEff&^capAll != 0 || w.CapBnd&^capAll != 0:
		return fmt.Errorf("it has too many privileges (capabilities %#x, bounding set %#x)", w.CapEff, w.CapBnd)
	case !w.RootReadOnly:
		return errors.New("the root file system is writable")
	case !w.WorkspaceMount:
		return fmt.Errorf("%s is not mounted", o.hello.Workspace)
	case o.container.Network == "none" && len(w.Interfaces) > 1:
		return fmt.Errorf("the network is off, but there are interfaces %v", w.Interfaces)
	}
	return o.mounts.verify(w)
}

// stderrLog passes the supervisor's own complaints to the log, which are few and short.
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
		s.log.Warn("sandbox supervisor says", "container", s.container, "text", string(p[:min(len(p), maxStderr)]))
	}
	return len(p), nil
}
