// Package keyed runs work of one key in order and of different keys side by side.
//
// Start with Group. It holds nothing durable: what is pushed must be in the
// store already, so that a crash loses the order of the work and not the work.
package keyed

import (
	"context"
	"slices"
	"sync"
)

// Group is a set of queues, one for each key with work. The zero value is not usable; see New.
type Group[T any] struct {
	work  func(ctx context.Context, key string, items []T) (rest []T)
	slots chan struct{}

	mu     sync.Mutex
	queues map[string][]T // a key is present while it has a worker
	ctx    context.Context
	closed bool
	queued int
	idle   []chan string // of workers without a queue, each with room for one key
	done   sync.WaitGroup
}

// maxIdle bounds the workers that wait for another queue. Work has deep stacks, which a goroutine that has done some keeps.
const maxIdle = 16

// New returns a group whose work function gets all items that wait in a queue, oldest first, and returns those that
// it leaves for the next round. At most parallel queues are worked on at a time. Items of work that the end of the
// context cuts short are not put back: the store still has them.
func New[T any](parallel int, work func(ctx context.Context, key string, items []T) (rest []T)) *Group[T] {
	return &Group[T]{work: work, slots: make(chan struct{}, parallel), queues: map[string][]T{}}
}

// Run works on the queues until ctx ends, and returns when the last worker has. Items pushed before wait for it.
func (g *Group[T]) Run(ctx context.Context) error {
	g.mu.Lock()
	g.ctx = ctx
	for key := range g.queues {
		g.start(key)
	}
	g.mu.Unlock()
	<-ctx.Done()
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.done.Wait()
	return nil
}

// Push appends an item to the queue of a key. After the end of Run it does nothing.
func (g *Group[T]) Push(key string, item T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	items, alive := g.queues[key]
	g.queues[key] = append(items, item)
	g.queued++
	if !alive && g.ctx != nil {
		g.start(key)
	}
}

// Queued returns the number of items that wait.
func (g *Group[T]) Queued() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.queued
}

// Waiting returns the items that were pushed for a key since its worker last took all.
func (g *Group[T]) Waiting(key string) []T {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.queues[key])
}

// start gives a key a worker; g.mu is held.
func (g *Group[T]) start(key string) {
	if n := len(g.idle); n > 0 {
		g.idle[n-1] <- key
		g.idle = g.idle[:n-1]
		return
	}
	g.done.Go(func() { g.worker(key) })
}

// worker drains one queue after the other until enough workers wait for one.
func (g *Group[T]) worker(key string) {
	next := make(chan string, 1)
	for {
		g.drain(key)
		if !g.rest(next) {
			return
		}
		select {
		case key = <-next:
		case <-g.ctx.Done():
			return
		}
	}
}

// rest returns a worker to the idle ones, and reports whether there is room for it.
func (g *Group[T]) rest(next chan string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.idle) == maxIdle {
		return false
	}
	g.idle = append(g.idle, next)
	return true
}

func (g *Group[T]) drain(key string) {
	for {
		select {
		case g.slots <- struct{}{}:
		case <-g.ctx.Done():
			return
		}
		items := g.take(key)
		var rest []T
		if len(items) > 0 && g.ctx.Err() == nil {
			rest = g.work(g.ctx, key, items)
		}
		<-g.slots
		if !g.giveBack(key, rest) {
			return
		}
	}
}

func (g *Group[T]) take(key string) []T {
	g.mu.Lock()
	defer g.mu.Unlock()
	items := g.queues[key]
	g.queues[key] = nil
	g.queued -= len(items)
	return items
}

// giveBack puts rest before the items that came meanwhile, and reports whether the queue has work. An empty queue is removed.
func (g *Group[T]) giveBack(key string, rest []T) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queued += len(rest)
	g.queues[key] = append(rest, g.queues[key]...)
	if len(g.queues[key]) == 0 {
		delete(g.queues, key)
		return false
	}
	return g.ctx.Err() == nil
}
