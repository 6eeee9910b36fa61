package sandbox

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// startQueue lets the commands of all sessions start in the order of their requests, as many at a time as there are processors. Starting a
// command takes about a millisecond: fork, exec and some frames. When many start at the same time and share the processors, all of them
// finish when the last one does; one after the other, half of them finish in half the time, and the last one no later.
type startQueue struct{ places chan struct{} }

// beginning is how long a command may keep its place: three times what a start takes. A command that ends earlier frees it then. So neither
// a long command nor a container that is being created delays others.
const beginning = 3 * time.Millisecond

func newStartQueue() *startQueue { return &startQueue{make(chan struct{}, runtime.GOMAXPROCS(0))} }

// take waits for a place and returns a function that frees it. It returns when ctx ends: the caller then reports that the command was too
// late.
func (t *startQueue) take(ctx context.Context) (done func()) {
	select {
	case t.places <- struct{}{}: // receivers on a channel are served in order
	case <-ctx.Done():
		return func() {}
	}
	giveUp := sync.OnceFunc(func() { <-t.places })
	late := time.AfterFunc(beginning, giveUp)
	return func() {
		late.Stop()
		giveUp()
	}
}
