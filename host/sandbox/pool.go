package sandbox

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// pool keeps containers that are started and greeted but belong to no session yet. Each has an empty
// workspace folder of its own, which becomes the session's by a rename, so that a
// session's first command costs no more than any other. A container is used for one session
// only. A session that has a workspace already is served by a new container instead.
type pool struct {
	m    *Manager
	spec Spec
	hash string
	size int
	kick chan struct{} // wakes run, buffered

	mu     sync.Mutex
	ready  []*box
	closed bool
	hits   int64
	misses int64
}

// yieldTime lets a new session's first command go ahead of the work that its claim causes.
const yieldTime = 50 * time.Millisecond

// refillPause separates attempts after a failure, and keeps refilling from taking the machine.
const refillPause = 2 * time.Second

func newPool(m *Manager) *pool {
	spec := m.config.Spec.WithDefaults()
	p := &pool{m: m, spec: spec, hash: spec.hash(m.digest), size: m.config.WarmPool, kick: make(chan struct{}, 1)}
	if spec.validate() != nil || spec.isPersonal() {
		p.size = 0 // Get reports what is wrong to whom it concerns
	}
	return p
}

// claim hands a ready container over to the session, or returns nil.
func (p *pool) claim(s *Session) *box {
	if p.size == 0 || s.hash != p.hash || !p.m.workspaces.fresh(s.session) {
		return nil
	}
	b := p.take()
	if b == nil {
		return nil
	}
	ours, err := p.m.workspaces.claim(b.workspace, s.session)
	if err != nil {
		p.m.log.Warn("warm sandbox could not be used", "error", err)
	}
	if !ours {
		// Another sandbox of the session was faster, or the folder is broken.
		p.m.work.Go(func() { p.discard(b) })
		return nil
	}
	p.adopt(b, s)
	return b
}

// take pops the newest container that is alive and asks for another one.
func (p *pool) take() *box {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.ready) > 0 {
		b := p.ready[len(p.ready)-1]
		p.ready = p.ready[:len(p.ready)-1]
		p.wake()
		if !b.link.isDead() {
			p.hits++
			return b
		}
		p.m.work.Go(func() { p.discard(b) })
	}
	p.misses++
	return nil
}

func (p *pool) wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// adopt notes whose container this is now. Its new name is only for people, so nobody waits for it.
func (p *pool) adopt(b *box, s *Session) {
	b.workspace = p.m.workspaces.path(s.session)
	b.serveSession(s.session)
	r, ok := p.m.config.Driver.(Renamer)
	if !ok {
		return
	}
	p.m.work.Go(func() {
		select {
		case <-time.After(yieldTime):
		case <-b.link.done:
			return
		}
		name := "flynn-" + safeName(s.session) + "-" + b.id[:min(len(b.id), 8)]
		if err := r.Rename(context.Background(), b.id, name); err != nil && !b.link.isDead() {
			p.m.log.Warn("warm sandbox could not be renamed", "container", b.id, "error", err)
		}
	})
}

// elsewhere says whether the engine is on another machine: there a container has to know whose workspace it gets.
func (p *pool) elsewhere(ctx context.Context) bool {
	binds, err := p.m.binds(ctx)
	return err == nil && !binds
}

// run fills the pool whenever it is not full.
func (p *pool) run(ctx context.Context) {
	for p.size > 0 && !p.elsewhere(ctx) {
		pause := time.Hour
		if p.missing() {
			pause = 0
			if err := p.add(ctx); err != nil {
				if ctx.Err() == nil {
					p.m.log.Warn("warm sandbox could not be made", "error", err)
				}
				pause = refillPause
			}
		}
		if !p.rest(ctx, pause) {
			return
		}
	}
}

// rest waits for the pause to pass or for a claim, and says whether to go on.
func (p *pool) rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-p.kick:
		timer.Reset(yieldTime)
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *pool) missing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.closed && len(p.ready) < p.size
}

// add makes one container and puts it into the pool. It is seen through even when ctx ends
// meanwhile, so that the engine is never left with half a container.
func (p *pool) add(ctx context.Context) error {
	ref, err := p.m.prepareImage(ctx, p.spec)
	if err != nil {
		return err
	}
	key := random()
	folder, owner, err := p.m.workspaces.slot(key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), launchTimeout)
	defer cancel()
	o := p.m.order(p.spec, folder, owner)
	o.container.Name, o.container.Image = "flynn-warm-"+o.container.Key[:16], ref
	b, err := launch(ctx, p.m.config.Driver, p.m.log, o)
	if err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	if !p.put(b) {
		p.discard(b)
	}
	return nil
}

func (p *pool) put(b *box) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.ready = append(p.ready, b)
	return true
}

// drain ends the pool for good.
func (p *pool) drain(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	ending := p.ready
	p.ready = nil
	p.mu.Unlock()
	for _, b := range ending {
		p.m.work.Go(func() { p.discard(b) })
	}
	return ctx.Err()
}

// discard ends a container that no session ever used, with its folder.
func (p *pool) discard(b *box) {
	err := b.remove(errEnded)
	if err = errors.Join(err, os.RemoveAll(b.workspace)); err != nil {
		p.m.log.Warn("warm sandbox could not be discarded", "container", b.id, "error", err)
	}
}

func (p *pool) stats(s Stats) Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.PoolReady, s.PoolHits, s.Misses = len(p.ready), p.hits, p.misses
	return s
}
