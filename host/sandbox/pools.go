package sandbox

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/pool"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// The pools keep containers ready, so that a session's first command costs no more than any other. A container
// is used for one session only, or one code run. A new session gets the folder of its container as its workspace by a
// rename; one that returns has its workspace moved into that folder (package workspace).
//
// The aim is to serve 19 of 20 sessions from a pool at the load of an ordinary hour; stats tell how many it was, and
// what kept the others from it.

// Pool is a number of containers to keep ready for one specification.
type Pool struct {
	Spec spec.Spec
	Size int
}

// MissWorkspace is why a pool did not serve where the session's workspace could not be brought along; see workspace.Root.Claim.
const MissWorkspace pool.Miss = "workspace"

func (m *Manager) newPools() *pool.Set[*box] {
	return pool.New(pool.Config[*box]{
		Discard: m.discard, Memory: m.config.memory, Inspect: m.config.inspect, Log: m.log,
		MaxAge: m.config.MaxAge / 2, // what is left is for the session
	})
}

// Dead reports whether the container is of no further use.
func (b *box) Dead() bool { return b.link.Dead() }

// Born is when the container was made.
func (b *box) Born() time.Time { return b.born }

// SetPools changes what is kept warm, and the share of the machine's time that refilling may take: see Config.
func (m *Manager) SetPools(wanted []Pool, cpu float64) {
	var wishes []pool.Wish[*box]
	for _, w := range wanted {
		spec := w.Spec.WithDefaults()
		if w.Size <= 0 || spec.Check() != nil || spec.IsPersonal() { // Get reports what is wrong to whom it concerns
			continue
		}
		wishes = append(wishes, pool.Wish[*box]{
			Kind: spec.Hash(m.digest), Size: w.Size,
			Make: func(ctx context.Context) (*box, time.Duration, error) { return m.makeWarm(ctx, spec) },
		})
	}
	m.pools.Want(wishes, cpu)
}

// makeWarm makes a container for a pool. To fetch an image takes long, but hardly any of the machine's time.
func (m *Manager) makeWarm(ctx context.Context, spec spec.Spec) (*box, time.Duration, error) {
	if binds, err := m.binds(ctx); err == nil && !binds {
		return nil, 0, pool.ErrNotNow // on an engine elsewhere a container has to know from the start whose workspace it gets
	}
	began := time.Now()
	ref, err := m.PrepareImage(ctx, spec)
	var b *box
	if err == nil {
		began = time.Now()
		b, err = m.launchSlot(ctx, spec, ref)
	}
	took := time.Since(began)
	if err != nil && ctx.Err() == nil {
		m.log.Warn("cannot make a warm sandbox", "image", spec.Image, "error", err)
	}
	return b, took, err
}

// launchSlot makes a container with an empty folder of its own, for whom it may concern. It is seen through even when
// ctx ends meanwhile, so that the engine is never left with half a container.
func (m *Manager) launchSlot(ctx context.Context, wanted spec.Spec, ref string) (*box, error) {
	folder, owner, err := m.workspaces.Slot(spec.NewKey())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), launchTimeout)
	defer cancel()
	o := m.launchSpec(wanted, folder, owner)
	o.container.Name, o.container.Image = "flynn-warm-"+o.container.Key[:16], ref
	b, err := launch(ctx, m.config.Driver, m.log, o)
	if err != nil {
		return nil, errors.Join(err, os.Remove(folder))
	}
	// The files that a container's first command looks up and maps are loaded before somebody waits for it. An image without a shell has no
	// such command, and a container that has died is found out by who takes it.
	_, _ = b.exec(ctx, machine.Command{Script: ":", Timeout: rehearsalTimeout}, wanted.WorkspaceDir)
	return b, nil
}

const rehearsalTimeout = 5 * time.Second

// claim hands a ready container over to the session, or returns nil.
func (m *Manager) claim(s *Session) *box {
	if m.isElsewhere() { // there a container has to know whose workspace it gets
		m.pools.Count(MissWorkspace)
		return nil
	}
	b, miss := m.takeWarm(s.hash)
	if b != nil {
		if err := m.workspaces.Claim(b.workspace, s.session); err != nil {
			m.refuse(b, s.session, err)
			b, miss = nil, MissWorkspace
		}
	}
	m.pools.Count(miss)
	if b != nil {
		m.giveTo(s, b)
	}
	return b
}

// claimSlot hands over a ready container together with its folder, or returns nil.
func (m *Manager) claimSlot(hash string) *box {
	b, miss := m.takeWarm(hash)
	m.pools.Count(miss)
	return b
}

// refuse takes back a container that the session cannot have.
func (m *Manager) refuse(b *box, session string, reason error) {
	if errors.Is(reason, workspace.ErrStays) {
		m.log.Debug("cannot give a session a warm sandbox", "session", session, "reason", reason)
		m.pools.Put(b.spec, b)
		return
	}
	m.log.Warn("cannot use a warm sandbox", "session", session, "error", reason)
	m.discard(b)
}

// noteAfter lets a first command go ahead of what is noted about its container.
const noteAfter = 50 * time.Millisecond

// giveTo notes whose container this is now. What is only for people and other processes, a file and a new name, nobody waits for.
func (m *Manager) giveTo(s *Session, b *box) {
	b.workspace = m.workspaces.Path(s.session)
	b.serveSession(s.session)
	m.work.Go(func() {
		select {
		case <-time.After(noteAfter):
		case <-b.link.Done():
			return
		}
		m.noteOwner(b, s)
		r, ok := m.config.Driver.(driver.Renamer)
		if !ok {
			return
		}
		name := "flynn-" + workspace.Name(s.session) + "-" + b.id[:min(len(b.id), 8)]
		if err := r.Rename(context.Background(), b.id, name); err != nil && !b.Dead() {
			m.log.Warn("cannot rename a warm sandbox", "container", b.id, "error", err)
		}
	})
}

// discard ends a container that nobody ever used, with its folder. A folder that has anything in it is left where
// it is: it might be somebody's work.
func (m *Manager) discard(b *box) {
	m.work.Go(func() {
		err := b.remove(errEnded)
		if err == nil {
			err = os.Remove(b.workspace)
		}
		if err != nil {
			m.log.Warn("cannot discard a warm sandbox", "container", b.id, "error", err)
		}
	})
}
