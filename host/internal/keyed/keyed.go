// Package keyed runs work of one key in order and of different keys side by side.
//
// Start with Group. It holds nothing durable: what is pushed must be in the
// store already, so that a crash loses only the order book, not the work.
package keyed

import (
	"context"
	"slices"
	"sync"
)

// Group is a set of lanes, one for each key with work. The zero value is not usable; see New.
type Group[T any] struct {
	work  func(ctx context.Context, key string, items []T) (rest []T)
	slots chan struct{}

	mu     sync.Mutex
	lanes  map[string][]T // a key is present while it has a worker
	ctx    context.Context
	closed bool
	queued int
	idle   []chan string // of workers without a lane, each with room for one key
	done   sync.WaitGroup
}

// maxIdle bounds the workers that wait for another lane. Work goes deep, and a goroutine that has done some has the stack for it.
const maxIdle = 16

// New returns a group whose work function gets everything that waits in a lane, oldest first, and returns what
// it leaves for the next round. At most parallel lanes work at a time. Work that is cut short by the
// end of the context keeps its items out of the group; the store still has them.
func New[T any](parallel int, work func(ctx context.Context, key string, items []T) (rest []T)) *Group[T] {
	return &Group[T]{work: work, slots: make(chan struct{}, parallel), lanes: map[string][]T{}}
}

// Run lets lanes work until ctx ends and returns when the last one has. Items pushed before wait for it.
func (g *Group[T]) Run(ctx context.Context) error {
	g.mu.Lock()
	g.ctx = ctx
	for key := range g.lanes {
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

// Push appends an item to a lane. After the end of Run it does nothing.
func (g *Group[T]) Push(key string, item T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	items, alive := g.lanes[key]
	g.lanes[key] = append(items, item)
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

// Waiting returns what has been pushed to a lane since its worker was last given everything.
func (g *Group[T]) Waiting(key string) []T {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.lanes[key])
}

// start gives a lane a worker; g.mu is held.
func (g *Group[T]) start(key string) {
	if n := len(g.idle); n > 0 {
		g.idle[n-1] <- key
		g.idle = g.idle[:n-1]
		return
	}
	g.done.Go(func() { g.worker(key) })
}

// worker drains one lane after the other until there are enough workers that wait for one.
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

// rest puts a worker among those that wait, and reports whether there is room for it.
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
	items := g.lanes[key]
	g.lanes[key] = nil
	g.queued -= len(items)
	return items
}

// giveBack puts rest before what came meanwhile and reports whether the lane has work; without, the lane is gone.
func (g *Group[T]) giveBack(key string, rest []T) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queued += len(rest)
	g.lanes[key] = append(rest, g.lanes[key]...)
	if len(g.lanes[key]) == 0 {
		delete(g.lanes, key)
		return false
	}
	return g.ctx.Err() == nil
}
