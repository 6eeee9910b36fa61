package agent

import (
	"context"
	"sync"

	"github.com/flynnhost/flynn/host/agent/turnlog"
)

// offspring are the background children that a stop reaches, by turn. One that waits for its place among the working turns has no way
// to be ended yet; that it was stopped is remembered until it has.
type offspring struct {
	mu sync.Mutex
	by map[string]*backgrounder
}

// backgrounder is a child at work in the background.
type backgrounder struct {
	row     turnlog.Turn
	cancel  context.CancelCauseFunc // nil before it runs
	stopped error                   // why it is not to run
}

// expect announces a child that will be registered.
func (o *offspring) expect(row turnlog.Turn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by == nil {
		o.by = map[string]*backgrounder{}
	}
	if o.by[row.ID] == nil {
		o.by[row.ID] = &backgrounder{row: row}
	}
}

// register lets stop find a child that runs.
func (o *offspring) register(row turnlog.Turn, cancel context.CancelCauseFunc) (unregister func()) {
	o.expect(row)
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.by[row.ID]
	if b.cancel = cancel; b.stopped != nil {
		cancel(b.stopped)
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.by, row.ID)
	}
}

// stop ends the children that which is true of, and reports whether there was one.
func (o *offspring) stop(cause error, which func(turnlog.Turn) bool) (found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range o.by {
		if !which(b.row) {
			continue
		}
		if found = true; b.cancel != nil {
			b.cancel(cause)
		}
		b.stopped = cause
	}
	return found
}

// any reports whether there is a child that which is true of.
func (o *offspring) any(which func(turnlog.Turn) bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range o.by {
		if which(b.row) {
			return true
		}
	}
	return false
}

// inPlace reports whether a child was begun in a place.
func inPlace(place string) func(turnlog.Turn) bool {
	return func(t turnlog.Turn) bool {
		return childPlace(t) == place
	}
}

// inConversation reports whether a child's conversation is the one of a key.
func inConversation(key string) func(turnlog.Turn) bool {
	return func(t turnlog.Turn) bool { return t.ConversationKey() == key }
}
