package policy

import (
	"context"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// pool keeps the idle instances of one module. Getting or returning one is usually one atomic operation on a slot that other workers
// seldom use; a lock is taken only to make an instance or to wait for one.
type pool struct {
	slots   []poolSlot // a power of two
	waiting atomic.Int32
	make    func() (*instance, error)

	mu      sync.Mutex
	live    int // instances that exist, in use or idle
	most    int
	waiters []chan *instance
	all     map[*instance]struct{}
	gone    stats // of closed instances
}

// poolSlot holds one instance while it is idle. It fills a cache line.
type poolSlot struct {
	idle  atomic.Pointer[instance]
	shard uint32
	owned bool // guarded by the pool's lock
	_     [51]byte
}

// patience bounds the wait for an instance when all are in use. It is longer than any decision.
const patience = 2 * time.Second

func newPool(create func() (*instance, error)) *pool {
	most := max(4, 2*runtime.GOMAXPROCS(0))
	p := &pool{slots: make([]poolSlot, 1<<bits.Len(uint(most-1))), make: create, most: most, all: map[*instance]struct{}{}}
	for k := range p.slots {
		p.slots[k].shard = uint32(k)
	}
	return p
}

// get returns an instance, looking first in the slot shard. Workers begin at a random slot, or at their last one, so that they seldom collide.
func (p *pool) get(ctx context.Context, shard uint32) (*instance, *Error) {
	if i := p.slots[shard&uint32(len(p.slots)-1)].idle.Swap(nil); i != nil {
		return i, nil // nearly always
	}
	if i := p.take(shard); i != nil {
		return i, nil
	}
	return p.makeOrWait(ctx)
}

func (p *pool) take(shard uint32) *instance {
	for k := range p.slots {
		s := &p.slots[(shard+uint32(k))&uint32(len(p.slots)-1)]
		if s.idle.Load() != nil {
			if i := s.idle.Swap(nil); i != nil {
				return i
			}
		}
	}
	return nil
}

func (p *pool) makeOrWait(ctx context.Context) (*instance, *Error) {
	p.mu.Lock()
	if p.live < p.most {
		p.live++
		p.mu.Unlock()
		return p.add()
	}
	// Announced before the last look, so that a concurrent put either sees the waiter or is seen here.
	p.waiting.Add(1)
	if i := p.take(0); i != nil {
		p.waiting.Add(-1)
		p.mu.Unlock()
		return i, nil
	}
	turn := make(chan *instance, 1)
	p.waiters = append(p.waiters, turn)
	p.mu.Unlock()
	return p.wait(ctx, turn)
}

// add makes an instance that p.live already counts.
func (p *pool) add() (*instance, *Error) {
	i, err := p.make()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.live--
		p.wakeToMake()
		return nil, asError(err, ClassLoad)
	}
	p.own(i)
	return i, nil
}

// own gives a new instance a slot, of which there are enough. The caller holds the lock, or the pool is not in use yet.
func (p *pool) own(i *instance) {
	for k := range p.slots {
		if s := &p.slots[k]; !s.owned {
			s.owned, i.slot = true, s
			break
		}
	}
	p.all[i] = struct{}{}
}

// wait waits for an instance, or for permission to make one, which is a nil instance on turn.
func (p *pool) wait(ctx context.Context, turn chan *instance) (*instance, *Error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case i := <-turn:
		if i == nil {
			return p.add()
		}
		return i, nil
	case <-ctx.Done():
	case <-timer.C:
	}
	p.mu.Lock()
	for k, w := range p.waiters {
		if w == turn {
			p.waiters = append(p.waiters[:k], p.waiters[k+1:]...)
			p.waiting.Add(-1)
			p.mu.Unlock()
			return nil, failf(ClassBusy, "all %d instances are in use", p.most)
		}
	}
	p.mu.Unlock()
	if i := <-turn; ctx.Err() == nil { // sent just before the timeout
		if i == nil {
			return p.add()
		}
		return i, nil
	} else if i != nil {
		p.put(i)
	} else {
		p.unmake()
	}
	return nil, failf(ClassBusy, "all %d instances are in use", p.most)
}

// put gives an instance back.
func (p *pool) put(i *instance) {
	i.slot.idle.Store(i)
	if p.waiting.Load() > 0 {
		p.handOver()
	}
}

// handOver gives idle instances to waiters.
func (p *pool) handOver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiters) > 0 {
		i := p.take(0)
		if i == nil {
			return
		}
		p.next() <- i
	}
}

// next removes and returns the first waiter. The caller holds the lock.
func (p *pool) next() chan *instance {
	turn := p.waiters[0]
	p.waiters = p.waiters[1:]
	p.waiting.Add(-1)
	return turn
}

// discard closes an instance that cannot be reset.
func (p *pool) discard(i *instance) {
	i.close()
	p.mu.Lock()
	delete(p.all, i)
	i.slot.owned = false
	i.stats.add(&p.gone)
	p.mu.Unlock()
	p.unmake()
}

// unmake allows another instance to be made.
func (p *pool) unmake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live--
	p.wakeToMake()
}

func (p *pool) wakeToMake() {
	if len(p.waiters) > 0 && p.live < p.most {
		p.live++
		p.next() <- nil
	}
}

// close closes all instances. None is in use.
func (p *pool) close() {
	for {
		i := p.take(0)
		if i == nil {
			return
		}
		p.discard(i)
	}
}

// sum adds the statistics of all instances, present and past, to total, and returns the number of those present.
func (p *pool) sum(total *stats) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone.add(total)
	for i := range p.all {
		i.stats.add(total)
	}
	return len(p.all)
}
