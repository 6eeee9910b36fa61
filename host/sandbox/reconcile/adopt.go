package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/internal/peercred"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/executor"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/link"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

const (
	// adoptTimeout bounds the wait for a supervisor whose host is gone: it first ends the processes that the host waited for, which may
	// take half of it, then tries the control socket once a second, and an attempt may fail on a busy machine.
	adoptTimeout = 15 * time.Second
	// proveTimeout bounds the exchange of proofs with a peer at the control socket, which may be a command inside.
	proveTimeout = 3 * time.Second
	// vanishEvery is how often to check whether the container still exists.
	vanishEvery = 500 * time.Millisecond
	// maxEntries includes the image's own process.
	maxEntries = executor.MaxProcesses + 1
)

// adoptAll adopts the containers that an earlier process of this instance has left with background commands. If there is anything wrong
// with one, it is left and therefore removed.
func (r *Reconciler) adoptAll(ctx context.Context, owned []driver.Owned, alive map[string]bool) {
	if r.config.Registry != nil {
		r.takeAll(ctx)
		return
	}
	keys, err := container.RecordKeys(r.config.Run)
	if err != nil {
		r.log.Warn("cannot list records", "error", err)
	}
	keys = slices.DeleteFunc(keys, r.config.Keys.Holds)
	_ = reaper.Each(keys, func(key string) error {
		left, err := container.ReadRecord(r.config.Run, key)
		if err == nil && alive[left.Owner] {
			return nil
		}
		if err == nil {
			err = r.adopt(ctx, left, owned)
		}
		switch {
		case errors.Is(err, errNotThere):
			r.log.Info("a sandbox with background processes ended while the host was down", "session", left.Session, "sandbox", left.Sandbox)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			r.log.Warn("a sandbox with background processes is lost", "session", left.Session, "sandbox", left.Sandbox, "error", err)
		}
		return nil
	})
}

var errNotThere = errors.New("the container is gone")

// takeAll has the sessions take over what is in the registry and no other host works with.
func (r *Reconciler) takeAll(ctx context.Context) {
	all, err := r.config.Registry.List(ctx, "")
	if err != nil {
		if ctx.Err() == nil {
			r.log.Warn("cannot list the sandboxes that other hosts have left", "error", err)
		}
		return
	}
	all = slices.DeleteFunc(all, func(left container.Registered) bool {
		return !left.Free || left.Foreign || r.config.Keys.Holds(left.Key)
	})
	if len(all) == 0 {
		return
	}
	engine, err := r.config.Driver.Capabilities(ctx)
	if err != nil {
		r.log.Debug("no sandbox can be taken over now", "error", err)
		return
	}
	all = slices.DeleteFunc(all, func(left container.Registered) bool { return !reaches(engine, left.Record) }) // its host may come back
	_ = reaper.Each(all, func(left container.Registered) error {
		if err := r.config.Sessions.TakeOver(ctx, left.Record); err != nil && ctx.Err() == nil {
			r.log.Warn("cannot take a sandbox over", "session", left.Session, "sandbox", left.Sandbox, "error", err)
		}
		return nil
	})
}

// reaches reports whether a container of a record, which names no engine if a host of an earlier release has made it, is within reach.
func reaches(engine driver.Capabilities, left container.Record) bool {
	return engine.Shared != "" && (left.Engine == "" || left.Engine == engine.Shared)
}

// TakeOver returns the container of a record in the registry, for which this host owns the conversation. A container that is gone, or that
// cannot be used any more, is removed with its record; while the engine does not answer both are left for the next attempt. Of a container on
// another engine only the record is removed, so that its host removes it.
func (r *Reconciler) TakeOver(ctx context.Context, left container.Record) (*container.Container, error) {
	began := time.Now()
	engine, err := r.config.Driver.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	if !reaches(engine, left) {
		return nil, errors.Join(errors.New("it is lost: it is on an engine that this host does not reach"), r.config.Registry.Drop(ctx, left.Key, left.Epoch))
	}
	owned, err := r.config.Driver.List(ctx, left.Instance)
	if err != nil {
		return nil, err
	}
	o, err := r.config.Keys.Take(ctx, r.config.Run, left)
	if err != nil {
		return nil, err
	}
	left.Epoch = o.Epoch()
	want, err := r.wanted(ctx, left, driver.OwnedBy(left.Instance, owned))
	if err == nil {
		left.Spec = want
		var c *container.Container
		within, cancel := context.WithTimeoutCause(ctx, adoptTimeout, errors.New("its supervisor does not answer"))
		defer cancel()
		if c, err = r.dial(within, left, o); err == nil {
			r.log.Info("took over a sandbox", "session", left.Session, "sandbox", left.Sandbox, "container", c.ID(), "epoch", left.Epoch, "processes", len(c.List()),
				"took", time.Since(began).Round(time.Millisecond))
			return c, nil
		}
		if within.Err() != nil && ctx.Err() == nil {
			err = context.Cause(within)
		}
	}
	if errors.Is(err, frame.ErrTaken) || ctx.Err() != nil {
		o.Forsake() // the record stays, for the host that has it or the next attempt
		return nil, err
	}
	if !errors.Is(err, errNotThere) {
		if failed := r.config.Driver.Remove(context.WithoutCancel(ctx), left.Container); failed != nil {
			o.Forsake()
			return nil, errors.Join(err, failed)
		}
	}
	o.End()
	return nil, fmt.Errorf("it is lost: %w", err)
}

// adopt gives the container of a record to its session again.
func (r *Reconciler) adopt(ctx context.Context, left container.Record, owned []driver.Owned) error {
	var err error
	if left.Spec, err = r.wanted(ctx, left, owned); err != nil {
		return err
	}
	c, err := r.reach(ctx, left)
	if err != nil {
		return err // it becomes a leftover
	}
	if !r.config.Sessions.Adopt(left, c) {
		err := errors.New("the session has another container already")
		return errors.Join(err, c.Remove(err))
	}
	r.log.Info("adopted a sandbox with background processes", "session", left.Session, "sandbox", left.Sandbox, "container", c.ID(),
		"processes", len(c.List()))
	return nil
}

// wanted returns the specification of a record's container, which must exist and match what its session would get.
func (r *Reconciler) wanted(ctx context.Context, left container.Record, owned []driver.Owned) (spec.Spec, error) {
	at := slices.IndexFunc(owned, func(o driver.Owned) bool { return o.ID == left.Container && o.Labels[driver.LabelKey] == left.Key })
	if at < 0 {
		return left.Spec, errNotThere
	}
	want := left.Spec
	if r.config.Current != nil { // a record does not contain everything
		current, ok := r.config.Current(left.Sandbox)
		if !ok {
			return left.Spec, fmt.Errorf("there is no sandbox %q any more", left.Sandbox)
		}
		want = current.WithDefaults()
	}
	if want.Hash(r.config.Digest) != left.Hash || left.Spec.Hash(r.config.Digest) != left.Hash {
		return left.Spec, errors.New("it was made by another configuration, or an older program")
	}
	if err := want.Check(); err != nil {
		return left.Spec, err
	}
	// The current rules for the host's folders apply.
	return want, r.config.Launcher.CheckMounts(ctx, want)
}

// reach waits for the supervisor, or connects to it.
func (r *Reconciler) reach(ctx context.Context, left container.Record) (*container.Container, error) {
	ctx, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, adoptTimeout, errors.New("its supervisor does not reconnect"))
	defer cancel()
	o, socket, err := r.claim(left)
	if err != nil {
		return nil, err
	}
	defer socket.Shut()
	watching := make(chan struct{})
	go func() { defer close(watching); r.awaitEnd(ctx, left.Container, gone) }()
	defer func() { cancel(); <-watching }()
	defer context.AfterFunc(ctx, socket.Shut)()
	var c *container.Container
	if o.Dialed() {
		c, err = r.dial(ctx, left, o)
	} else {
		c, err = r.accept(ctx, left, o, socket)
	}
	switch {
	case errors.Is(err, frame.ErrTaken):
		o.Yield()
	case err != nil:
		o.Forsake()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	return c, err
}

// claim claims the container of a record, and reopens its control socket if it has one.
func (r *Reconciler) claim(left container.Record) (o *container.Ownership, socket *container.ControlSocket, err error) {
	if left.Identity == nil {
		folder := container.ControlFolderOf(r.config.Run, left.Host, left.Key)
		if info, err := os.Lstat(folder); err != nil || !info.IsDir() {
			return nil, nil, errors.New("its control socket is gone")
		}
		if socket, err = container.ReopenControlSocket(folder); err != nil {
			return nil, nil, err
		}
	}
	if o, err = r.config.Keys.Regain(r.config.Run, left, r.config.Host.ID(), socket); err != nil {
		socket.Shut()
	}
	return o, socket, err
}

// dial connects to a supervisor that listens. It first ends the connection to the host before.
func (r *Reconciler) dial(ctx context.Context, left container.Record, o *container.Ownership) (*container.Container, error) {
	conn, _, err := o.Dial(ctx, r.config.Driver, cmp.Or(left.Instance, r.config.Instance), left.Container)
	if err != nil {
		return nil, err
	}
	c, err := r.welcomeBack(ctx, conn, left, o, adoptTimeout)
	if err != nil {
		conn.Close()
	}
	return c, err
}

// accept waits for the supervisor at the control socket.
func (r *Reconciler) accept(ctx context.Context, left container.Record, o *container.Ownership, socket *container.ControlSocket) (*container.Container, error) {
	for {
		conn, err := socket.Next()
		if err != nil {
			return nil, err
		}
		c, err := r.welcome(ctx, conn, left, o)
		if err == nil {
			return c, nil
		}
		conn.Close()
		if errors.Is(err, frame.ErrTaken) {
			return nil, err
		}
		if !errors.Is(err, link.ErrStranger) {
			r.log.Debug("refused a connection at the control socket", "container", left.Container, "error", err)
		}
	}
}

// awaitEnd cancels the wait if the container disappears.
func (r *Reconciler) awaitEnd(ctx context.Context, id string, gone context.CancelCauseFunc) {
	clock := time.NewTicker(vanishEvery)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		}
		owned, err := r.config.Driver.List(ctx, r.config.Instance)
		if err == nil && !slices.ContainsFunc(owned, func(o driver.Owned) bool { return o.ID == id }) {
			gone(errNotThere)
			return
		}
	}
}

// welcome handles a connection at the control socket. Commands inside have another user id than the supervisor, so most of their attempts
// fail at the first check.
func (r *Reconciler) welcome(ctx context.Context, conn net.Conn, left container.Record, o *container.Ownership) (*container.Container, error) {
	if uid, err := peercred.UID(conn); err != nil || uid != left.Peer {
		return nil, errors.Join(link.ErrStranger, err)
	}
	return r.welcomeBack(ctx, conn, left, o, proveTimeout)
}

// welcomeBack lets both ends prove their identity.
func (r *Reconciler) welcomeBack(ctx context.Context, conn driver.Stream, left container.Record, o *container.Ownership, patience time.Duration) (*container.Container, error) {
	reader, entries, err := link.Adopt(conn, patience, left.Secret, o.Epoch(), maxEntries)
	if err != nil {
		return nil, err
	}
	return r.config.Launcher.Regain(ctx, conn, reader, left, o, entries)
}
