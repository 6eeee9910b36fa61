package sandbox

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// pools keep containers ready, so that a session's first command costs no more than any other. A container
// is used for one session only, or one code run. A new session gets the folder of its container as its workspace by a
// rename; one that returns has its workspace moved into that folder (returning.go).
//
// The aim is to serve 19 of 20 sessions from a pool at the load of an ordinary hour; stats tell how many it was, and
// what kept the others from it.
type pools struct {
	m    *Manager
	kick chan struct{} // wakes run, buffered

	urgent  atomic.Int64 // sessions and code runs that wait for a container at this moment
	claimed atomic.Int64 // when the latest of them was served, in Unix nanoseconds

	mu       sync.Mutex // guards the fields below, never held over I/O
	byHash   map[string]*pool
	order    []*pool // as configured
	budget   budget
	pressure pressure
	yielding time.Time // since when refilling lets others go first, or zero
	closed   bool
	counts   PoolStats
}

// Miss says why a pool did not serve.
type Miss string

// The reasons.
const (
	MissNoPool    Miss = "no_pool"   // none is kept for the specification
	MissEmpty     Miss = "empty"     // all were taken, or drained
	MissWorkspace Miss = "workspace" // the session's workspace could not be brought along; see returning.go
)

// PoolStats count since the start, but for Ready and Wanted, which are as of now.
type PoolStats struct {
	Ready, Wanted int
	Hits          int64
	Misses        map[Miss]int64
	Refills       int64 // containers made
	Failures      int64 // containers that could not be made
	Drained       int64 // ended because memory ran short or the configuration changed
	Replaced      int64 // ended because they were old, or dead
	Pressed       bool  // whether memory is short
}

func newPools(m *Manager) *pools {
	ps := &pools{
		m: m, kick: make(chan struct{}, 1), byHash: make(map[string]*pool),
		counts: PoolStats{Misses: make(map[Miss]int64)},
	}
	ps.set(m.config.Pools, m.config.PoolCPU)
	return ps
}

// SetPools changes what is kept warm, and the share of the machine's time that refilling may take: see Config.
func (m *Manager) SetPools(wanted []Pool, cpu float64) { m.pools.set(wanted, cpu) }

func (ps *pools) set(wanted []Pool, cpu float64) {
	ps.mu.Lock()
	before := ps.byHash
	ps.byHash, ps.order = make(map[string]*pool), nil
	ps.budget.rate = poolRate(cmp.Or(cpu, defaultPoolCPU))
	var waste []*box
	for _, w := range wanted {
		ps.enter(w, before)
	}
	for hash, p := range before {
		if ps.byHash[hash] == nil {
			waste = append(waste, p.shrink(0)...)
		}
	}
	for _, p := range ps.order {
		waste = append(waste, p.shrink(p.size)...)
	}
	ps.counts.Drained += int64(len(waste))
	ps.mu.Unlock()
	ps.discard(waste)
	ps.wake()
}

// enter adds one wish, on top of the pool that is there. ps.mu is held.
func (ps *pools) enter(w Pool, before map[string]*pool) {
	spec := w.Spec.WithDefaults()
	if w.Size <= 0 || spec.validate() != nil || spec.isPersonal() { // Get reports what is wrong to whom it concerns
		return
	}
	hash := spec.hash(ps.m.digest)
	p := ps.byHash[hash]
	if p == nil {
		p = &pool{spec: spec, hash: hash}
		if old := before[hash]; old != nil {
			p.ready = old.ready
		}
		ps.byHash[hash] = p
		ps.order = append(ps.order, p)
	}
	p.size += w.Size
}

// hurry announces somebody who waits for a container; what it returns says that he has it.
func (ps *pools) hurry() (served func()) {
	ps.urgent.Add(1)
	return func() { ps.urgent.Add(-1) }
}

// claim hands a ready container over to the session, or returns nil.
func (ps *pools) claim(s *Session) *box {
	if ps.m.isElsewhere() { // there a container has to know whose workspace it gets
		ps.count(MissWorkspace)
		return nil
	}
	b, miss := ps.take(s.hash)
	if b != nil {
		if err := ps.m.workspaces.claim(b.workspace, s.session); err != nil {
			ps.refuse(b, s.session, err)
			b, miss = nil, MissWorkspace
		}
	}
	ps.count(miss)
	if b != nil {
		ps.adopt(b, s)
	}
	return b
}

// refuse takes back a container that the session cannot have.
func (ps *pools) refuse(b *box, session string, reason error) {
	if errors.Is(reason, errStays) {
		ps.m.log.Debug("session cannot have a warm sandbox", "session", session, "reason", reason)
		ps.put(b)
		return
	}
	ps.m.log.Warn("warm sandbox could not be used", "session", session, "error", reason)
	ps.discard([]*box{b})
}

// claimSlot hands over a ready container together with its folder, or returns nil.
func (ps *pools) claimSlot(hash string) *box {
	b, miss := ps.take(hash)
	ps.count(miss)
	return b
}

// take pops the newest container that is alive, and asks for another one.
func (ps *pools) take(hash string) (*box, Miss) {
	ps.mu.Lock()
	p := ps.byHash[hash]
	if p == nil {
		ps.mu.Unlock()
		return nil, MissNoPool
	}
	b, dead := p.take()
	ps.counts.Replaced += int64(len(dead))
	ps.mu.Unlock()
	ps.discard(dead)
	ps.wake()
	if b == nil {
		return nil, MissEmpty
	}
	ps.claimed.Store(time.Now().UnixNano())
	return b, ""
}

func (ps *pools) count(miss Miss) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if miss == "" {
		ps.counts.Hits++
	} else {
		ps.counts.Misses[miss]++
	}
}

func (ps *pools) wake() {
	select {
	case ps.kick <- struct{}{}:
	default:
	}
}

// adopt notes whose container this is now. Its new name is only for people, so nobody waits for it.
func (ps *pools) adopt(b *box, s *Session) {
	b.workspace = ps.m.workspaces.path(s.session)
	b.serveSession(s.session)
	r, ok := ps.m.config.Driver.(Renamer)
	if !ok {
		return
	}
	ps.m.work.Go(func() {
		select {
		case <-time.After(yieldTime):
		case <-b.link.done:
			return
		}
		name := "flynn-" + safeName(s.session) + "-" + b.id[:min(len(b.id), 8)]
		if err := r.Rename(context.Background(), b.id, name); err != nil && !b.link.isDead() {
			ps.m.log.Warn("warm sandbox could not be renamed", "container", b.id, "error", err)
		}
	})
}

// put gives a container to the pool of its specification, or ends it where none wants it any more.
func (ps *pools) put(b *box) {
	ps.mu.Lock()
	p := ps.byHash[b.spec]
	wanted := !ps.closed && !ps.pressure.on && p != nil && len(p.ready) < p.size
	if wanted {
		p.ready = append(p.ready, b)
	}
	ps.mu.Unlock()
	if !wanted {
		ps.discard([]*box{b})
	}
}

// drain ends the pools for good.
func (ps *pools) drain(ctx context.Context) error {
	ps.mu.Lock()
	ps.closed = true
	var all []*box
	for _, p := range ps.order {
		all = append(all, p.shrink(0)...)
	}
	ps.mu.Unlock()
	ps.discard(all)
	return ctx.Err()
}

// discard ends containers that nobody ever used, with their folders. A folder that has anything in it is left where
// it is: it might be somebody's work.
func (ps *pools) discard(boxes []*box) {
	for _, b := range boxes {
		ps.m.work.Go(func() {
			err := b.remove(errEnded)
			if err == nil {
				err = os.Remove(b.workspace)
			}
			if err != nil {
				ps.m.log.Warn("warm sandbox could not be discarded", "container", b.id, "error", err)
			}
		})
	}
}

func (ps *pools) stats() PoolStats {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	s := ps.counts
	s.Misses = make(map[Miss]int64)
	for reason, n := range ps.counts.Misses {
		s.Misses[reason] = n
	}
	s.Pressed = ps.pressure.on
	for _, p := range ps.order {
		s.Ready += len(p.ready)
		s.Wanted += p.size
	}
	return s
}
