package sandbox

import (
	"time"
)

// Pool is a number of containers to keep ready for one specification.
type Pool struct {
	Spec Spec
	Size int
}

// pool holds the containers of one specification that are started and greeted but belong to no session yet. Each has
// an empty workspace folder of its own. The lock of pools guards it.
type pool struct {
	spec  Spec
	hash  string
	size  int
	ready []*box // oldest first

	failures int       // launches in a row
	until    time.Time // not to be tried again before
}

// take pops the newest container that is alive; the dead ones that it meets go to waste.
func (p *pool) take() (b *box, waste []*box) {
	for len(p.ready) > 0 {
		last := len(p.ready) - 1
		b, p.ready = p.ready[last], p.ready[:last]
		if !b.link.isDead() {
			return b, waste
		}
		waste = append(waste, b)
	}
	return nil, waste
}

// cull takes out the dead, and those made before a time.
func (p *pool) cull(before time.Time) (old []*box) {
	kept := p.ready[:0]
	for _, b := range p.ready {
		if b.link.isDead() || b.born.Before(before) {
			old = append(old, b)
		} else {
			kept = append(kept, b)
		}
	}
	clear(p.ready[len(kept):])
	p.ready = kept
	return old
}

// shrink takes out the oldest until no more than n are left.
func (p *pool) shrink(n int) (surplus []*box) {
	cut := max(0, len(p.ready)-n)
	surplus, p.ready = p.ready[:cut:cut], p.ready[cut:]
	return surplus
}

// The time between attempts at a container that cannot be made.
const (
	refillPause    = 2 * time.Second
	maxRefillPause = time.Minute
)

// failed puts the next attempt off, longer each time.
func (p *pool) failed(now time.Time) {
	p.until = now.Add(min(refillPause<<min(p.failures, 5), maxRefillPause))
	p.failures++
}
