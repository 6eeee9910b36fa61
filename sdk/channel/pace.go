package channel

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Pace is a rate limit that all conversations of a connection share: burst messages at once, then one per interval. Waiting conversations
// take turns, so that a long answer in one does not delay the others.
type Pace struct {
	burst    int
	interval time.Duration

	mu      sync.Mutex
	full    time.Time // when the full burst is available again
	virtual uint64    // start of the last turn
	arrived uint64
	queues  map[string]*paceQueue
	timer   *time.Timer // for the next turn; nil if there is none
}

// paceQueue is the queue of one conversation. It keeps its place until it has been served, even if every waiter has given up, so that the
// next attempt does not lose it.
type paceQueue struct {
	claimed bool
	start   uint64 // queues are served in this order, then by arrival
	arrival uint64
	waiting []chan struct{} // each is closed with its turn
	used    time.Time
}

// placeKept is how long a place without waiters is kept. The host's attempts are at most five minutes apart.
const placeKept = 10 * time.Minute

// NewPace returns a Pace. An interval of 0 means no limit.
func NewPace(burst int, interval time.Duration) *Pace {
	return &Pace{burst: max(burst, 1), interval: interval, queues: map[string]*paceQueue{}}
}

// Wait waits for a turn of the conversation. After an error there was none, and nothing was sent.
func (p *Pace) Wait(ctx context.Context, conversation string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	turn := p.enter(conversation)
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-turn:
		return nil
	default:
	}
	p.leave(conversation, turn)
	return ctx.Err()
}

// enter adds a waiter to the queue of a conversation.
func (p *Pace) enter(conversation string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[conversation]
	if q == nil {
		p.sweep()
		q = &paceQueue{}
		p.queues[conversation] = q
	}
	if !q.claimed {
		q.claimed, q.start = true, max(q.start, p.virtual)
		p.arrive(q)
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	p.give()
	return turn
}

func (p *Pace) arrive(q *paceQueue) {
	p.arrived++
	q.arrival = p.arrived
}

// leave removes a waiter; p.mu is held.
func (p *Pace) leave(conversation string, turn chan struct{}) {
	q := p.queues[conversation]
	q.waiting = slices.DeleteFunc(q.waiting, func(w chan struct{}) bool { return w == turn })
	q.used = time.Now()
}

// sweep removes places that were left long ago; p.mu is held.
func (p *Pace) sweep() {
	for name, q := range p.queues {
		if len(q.waiting) == 0 && time.Since(q.used) > placeKept {
			delete(p.queues, name)
		}
	}
}

// give grants the available turns; p.mu is held.
func (p *Pace) give() {
	for {
		q := p.next()
		if q == nil {
			return
		}
		now := time.Now()
		if next := p.full.Add(-time.Duration(p.burst-1) * p.interval); next.After(now) {
			p.later(next.Sub(now))
			return
		}
		if p.full.Before(now) {
			p.full = now
		}
		p.full = p.full.Add(p.interval)
		p.virtual = q.start
		close(q.waiting[0])
		q.waiting = q.waiting[1:]
		q.start++
		q.used, q.claimed = now, len(q.waiting) > 0
		p.arrive(q)
	}
}

// next returns the queue whose turn it is; p.mu is held.
func (p *Pace) next() *paceQueue {
	var first *paceQueue
	for _, q := range p.queues {
		if len(q.waiting) == 0 {
			continue
		}
		if first == nil || q.start < first.start || q.start == first.start && q.arrival < first.arrival {
			first = q
		}
	}
	return first
}

// later grants further turns after d; p.mu is held.
func (p *Pace) later(d time.Duration) {
	if p.timer != nil {
		return
	}
	p.timer = time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = nil
		p.give()
	})
}
