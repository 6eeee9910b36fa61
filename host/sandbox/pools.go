package sandbox

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/launch"
	"github.com/flynnhost/flynn/host/sandbox/pool"
	"github.com/flynnhost/flynn/host/sandbox/reconcile"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// The pools keep containers ready, so that a session's first command costs no more than any other. A container is used for one session or
// one code run only. A new session gets the folder of its container as its workspace by a rename; a returning session has its workspace
// moved into that folder (package workspace).
//
// The goal is to serve 19 of 20 sessions from a pool under ordinary load; the stats count them, and the reasons of the misses.

// Pool is a number of containers to keep ready for one specification.
type Pool struct {
	Spec spec.Spec
	Size int
}

// MissWorkspace is the reason when the session's workspace could not be moved to the container; see workspace.Root.Claim.
const MissWorkspace pool.Miss = "workspace"

// warm manages the ready containers.
type warm struct {
	launch.Installation
	pools      *pool.Set[*container.Container]
	launcher   *launch.Launcher
	reconciler *reconcile.Reconciler
	sessions   *registry // which waits for background work at shutdown
}

func newWarm(c Config, here launch.Installation, l *launch.Launcher, r *reconcile.Reconciler, sessions *registry) *warm {
	w := &warm{Installation: here, launcher: l, reconciler: r, sessions: sessions}
	w.pools = pool.New(pool.Config[*container.Container]{
		Discard: w.discard, Memory: c.memory, Inspect: c.inspect, Log: c.Log,
		MaxAge: c.MaxAge / 2, // the session has the rest
	})
	return w
}

// set changes the pools, and the share of CPU time for refilling.
func (w *warm) set(wanted []Pool, cpu float64) {
	var wishes []pool.Wish[*container.Container]
	for _, p := range wanted {
		s := p.Spec.WithDefaults()
		if p.Size <= 0 || s.Check() != nil || s.IsPersonal() { // Get reports the error
			continue
		}
		wishes = append(wishes, pool.Wish[*container.Container]{
			Kind: s.Hash(w.Digest), Size: p.Size,
			Make: func(ctx context.Context) (*container.Container, time.Duration, error) { return w.make(ctx, s) },
		})
	}
	w.pools.Want(wishes, cpu)
}

// make creates a container for a pool. Pulling an image is slow, but takes hardly any CPU time.
func (w *warm) make(ctx context.Context, s spec.Spec) (*container.Container, time.Duration, error) {
	if !w.Driver.Binds() && !driver.Disks(w.Driver) {
		return nil, 0, pool.ErrNotNow // a container with a volume must know from the start whose workspace it gets
	}
	began := time.Now()
	ref, err := w.launcher.Images.Prepare(ctx, s)
	var c *container.Container
	if err == nil {
		began = time.Now()
		c, err = w.launcher.Slot(ctx, s, ref)
	}
	took := time.Since(began)
	if err != nil && ctx.Err() == nil {
		w.Log.Warn("cannot make a warm sandbox", "image", s.Image, "error", err)
	}
	return c, took, err
}

// claim assigns a ready container to a session; nil if there is none.
func (w *warm) claim(ctx context.Context, s *Session) *container.Container {
	session, name := s.session, s.name
	if !w.Driver.Binds() && !driver.Disks(w.Driver) { // there, a container must know whose workspace it gets
		w.pools.Count(MissWorkspace)
		return nil
	}
	c, miss := w.take(s.hash)
	if c != nil {
		if err := w.furnish(ctx, c, s); err != nil {
			w.refuse(c, session, err)
			c, miss = nil, MissWorkspace
		}
	}
	w.pools.Count(miss)
	if c != nil {
		w.giveTo(session, name, c)
	}
	return c
}

// furnish gives a container the workspace of a session.
func (w *warm) furnish(ctx context.Context, c *container.Container, s *Session) error {
	slot := c.Workspace()
	if w.Driver.Binds() {
		return w.Workspaces.Claim(slot, s.session)
	}
	path, _, err := w.Workspaces.Prepare(s.session)
	if err != nil {
		return err
	}
	c.Carry(w.launcher.Syncs.Own(path, c.Key(), s.spec.Workspace == spec.WorkspaceReadOnly))
	if err := c.PushWorkspace(ctx); err != nil {
		return err
	}
	return os.Remove(slot)
}

// claimSlot takes a ready container together with its folder; nil if there is none.
func (w *warm) claimSlot(kind string) *container.Container {
	c, miss := w.take(kind)
	w.pools.Count(miss)
	return c
}

// refuse discards a container that the session cannot use.
func (w *warm) refuse(c *container.Container, session message.WorkspaceKey, reason error) {
	if errors.Is(reason, workspace.ErrStays) {
		w.Log.Debug("cannot give a session a warm sandbox", "session", session, "reason", reason)
		w.pools.Put(c.Spec(), c)
		return
	}
	w.Log.Warn("cannot use a warm sandbox", "session", session, "error", reason)
	w.discard(c)
}

// noteAfter delays recording a container's owner, so that it does not slow down the first command.
const noteAfter = 50 * time.Millisecond

// giveTo records the owner of a container in the background: the file and the new name are for people and other processes.
func (w *warm) giveTo(session message.WorkspaceKey, name string, c *container.Container) {
	c.Assign(session, w.Workspaces.Path(session))
	w.sessions.work.Go(func() {
		select {
		case <-time.After(noteAfter):
		case <-c.Link.Done():
			return
		}
		w.reconciler.NoteOwner(c, session, name)
		r, ok := w.Driver.(driver.Renamer)
		if !ok {
			return
		}
		shown := "flynn-" + workspace.Name(session) + "-" + c.ID()[:min(len(c.ID()), 8)]
		if err := r.Rename(context.Background(), c.ID(), shown); err != nil && !c.Dead() {
			w.Log.Warn("cannot rename a warm sandbox", "container", c.ID(), "error", err)
		}
	})
}

// discard ends a container that was never used, and removes its folder. If there is anything in the folder it stays, because it might be
// somebody's work.
func (w *warm) discard(c *container.Container) {
	end := func() {
		err := c.End()
		if err == nil {
			err = os.Remove(c.Workspace())
		}
		if err != nil {
			w.Log.Warn("cannot discard a warm sandbox", "container", c.ID(), "error", err)
		}
	}
	done, err := w.sessions.join()
	if err != nil { // it was completed when the host already stopped
		end()
		return
	}
	go func() {
		defer done()
		end()
	}()
}

// answerTime is how long a warm container may take to answer before the engine is asked about it.
const answerTime = time.Second

// take takes a container from its pool, skipping paused ones.
func (w *warm) take(kind string) (*container.Container, pool.Miss) {
	for {
		c, miss := w.pools.Take(kind)
		if c == nil || !w.isPaused(c) {
			return c, miss
		}
		w.Log.Warn("replacing a warm sandbox", "container", c.ID(), "error", container.ErrPaused)
		w.discard(c)
	}
}

// isPaused reports whether somebody has paused a container; one that answers is not paused.
func (w *warm) isPaused(c *container.Container) bool {
	answered := make(chan struct{})
	w.sessions.work.Go(func() {
		defer close(answered)
		_, _ = c.Link.Stat(context.Background(), ".") // the first call notices a dead container
	})
	late := time.NewTimer(answerTime)
	defer late.Stop()
	select {
	case <-answered:
		return false
	case <-late.C:
		return c.WhyHung() != nil
	}
}
