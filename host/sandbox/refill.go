package sandbox

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/flynnhost/flynn/host/machine"
)

// yieldTime lets a first command go ahead of the work that its claim causes.
const yieldTime = 50 * time.Millisecond

// maxYield is how long refilling lets others go first.
const maxYield = 5 * time.Second

// maxCharge is the most that one container is reckoned to have taken: what takes longer waits for something else.
const maxCharge = 5 * time.Second

// inspectEvery is the time between two looks at the machine's memory and the containers' age.
const inspectEvery = 5 * time.Second

// run fills the pools whenever they are not full, one container at a time.
func (ps *pools) run(ctx context.Context) {
	inspect := time.NewTicker(ps.m.config.inspect)
	defer inspect.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-inspect.C:
			ps.inspect(now)
		case <-ps.kick:
		case <-next.C:
		}
		if wait := ps.refill(ctx); wait >= 0 {
			next.Reset(wait)
		}
	}
}

// inspect replaces what is dead or has lived half its time, and drains the pools while memory is short.
func (ps *pools) inspect(now time.Time) {
	state, err := ps.m.config.Memory()
	if err != nil {
		state = MemoryState{Available: 1} // nobody can tell, so the pools stay
	}
	ps.mu.Lock()
	changed := ps.pressure.update(state)
	pressed := ps.pressure.on
	var old, drained []*box
	for _, p := range ps.order {
		old = append(old, p.cull(now.Add(-ps.m.config.MaxAge/2))...)
		if pressed {
			drained = append(drained, p.shrink(0)...)
		}
	}
	ps.counts.Replaced += int64(len(old))
	ps.counts.Drained += int64(len(drained))
	ps.mu.Unlock()
	ps.discard(append(old, drained...))
	if changed && pressed {
		ps.m.log.Warn("memory is short: warm sandboxes are ended", "stalled_percent", state.Stalled, "available", state.Available)
	} else if changed {
		ps.m.log.Info("memory suffices again: warm sandboxes are made")
	}
}

// refill makes one container, if one is missing and the time has come. It returns how long to wait before the next
// attempt, and less than 0 to wait for word.
func (ps *pools) refill(ctx context.Context) time.Duration {
	p, wait := ps.neediest(time.Now())
	if p == nil || wait > 0 {
		return wait
	}
	if binds, err := ps.m.binds(ctx); err == nil && !binds {
		return -1 // on an engine elsewhere a container has to know from the start whose workspace it gets
	}
	began := time.Now()
	ref, err := ps.m.PrepareImage(ctx, p.spec)
	var b *box
	if err == nil {
		began = time.Now() // to fetch an image takes long, but hardly any of the machine's time
		b, err = ps.m.launchSlot(ctx, p.spec, ref)
	}
	ended := time.Now()
	ps.mu.Lock()
	ps.yielding = time.Time{}
	ps.budget.spend(ended, min(ended.Sub(began), maxCharge))
	if err != nil {
		ps.counts.Failures++
		p.failed(ended)
	} else {
		ps.counts.Refills++
		p.failures = 0
	}
	ps.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			ps.m.log.Warn("warm sandbox could not be made", "image", p.spec.Image, "error", err)
		}
		return 0
	}
	ps.put(b)
	return 0
}

// neediest is the pool with the smallest part of what it should have, of those that may be tried now; without one, or
// when somebody else goes first, it says how long to wait.
func (ps *pools) neediest(now time.Time) (*pool, time.Duration) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.closed || ps.pressure.on {
		return nil, -1
	}
	var best *pool
	retry := time.Duration(-1)
	for _, p := range ps.order {
		switch {
		case len(p.ready) >= p.size:
		case now.Before(p.until):
			if wait := p.until.Sub(now); retry < 0 || wait < retry {
				retry = wait
			}
		case best == nil || len(p.ready)*best.size < len(best.ready)*p.size:
			best = p
		}
	}
	if best == nil {
		return nil, retry
	}
	return best, max(ps.yield(now), ps.budget.wait(now))
}

// yield is how long to let those go first who wait for a container, or were just given one. It does not let them all go
// first: where they never cease to come, a pool that is never filled would serve none. ps.mu is held.
func (ps *pools) yield(now time.Time) time.Duration {
	wait := yieldTime - now.Sub(time.Unix(0, ps.claimed.Load()))
	if ps.urgent.Load() > 0 {
		wait = yieldTime
	}
	if wait <= 0 {
		return 0
	}
	if ps.yielding.IsZero() {
		ps.yielding = now
	}
	if now.Sub(ps.yielding) >= maxYield {
		return 0
	}
	return wait
}

// launchSlot makes a container with an empty folder of its own, for whom it may concern. It is seen through even when
// ctx ends meanwhile, so that the engine is never left with half a container.
func (m *Manager) launchSlot(ctx context.Context, spec Spec, ref string) (*box, error) {
	folder, owner, err := m.workspaces.slot(random())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), launchTimeout)
	defer cancel()
	o := m.order(spec, folder, owner)
	o.container.Name, o.container.Image = "flynn-warm-"+o.container.Key[:16], ref
	b, err := launch(ctx, m.config.Driver, m.log, o)
	if err != nil {
		return nil, errors.Join(err, os.Remove(folder))
	}
	// What a container's first command has to look up and to map is there when somebody waits for one. An image without a shell has no
	// such command, and a container that has died is found out by who takes it.
	_, _ = b.exec(ctx, machine.Command{Script: ":", Timeout: rehearsalTimeout}, spec.WorkspaceDir)
	return b, nil
}

const rehearsalTimeout = 5 * time.Second
