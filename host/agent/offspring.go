package agent

import (
	"context"
	"sync"
)

// offspring are the background children that a stop reaches, by conversation and turn. One that waits for its place among the
// working turns has no way to be ended yet; that it was stopped is remembered until it has.
type offspring struct {
	mu sync.Mutex
	by map[string]map[string]context.CancelCauseFunc
}

// stopped takes the place of the way to end a child that was stopped before it began.
func stopped(error) {}

// expect announces a child that will be registered.
func (o *offspring) expect(conversation, turn string) { o.put(conversation, turn, nil) }

func (o *offspring) put(conversation, turn string, cancel context.CancelCauseFunc) (wasStopped bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by == nil {
		o.by = map[string]map[string]context.CancelCauseFunc{}
	}
	if o.by[conversation] == nil {
		o.by[conversation] = map[string]context.CancelCauseFunc{}
	}
	wasStopped = o.by[conversation][turn] != nil
	o.by[conversation][turn] = cancel
	return wasStopped
}

// register lets stop find a child that runs.
func (o *offspring) register(conversation, turn string, cancel context.CancelCauseFunc) (unregister func()) {
	if o.put(conversation, turn, cancel) {
		cancel(errStopped)
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if delete(o.by[conversation], turn); len(o.by[conversation]) == 0 {
			delete(o.by, conversation)
		}
	}
}

// stop ends the children of a conversation, and tells whether there was one.
func (o *offspring) stop(conversation string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for turn, cancel := range o.by[conversation] {
		if cancel == nil {
			o.by[conversation][turn] = stopped
			continue
		}
		cancel(errStopped)
	}
	return len(o.by[conversation]) > 0
}
