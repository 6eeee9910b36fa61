package sandbox

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// startQueue lets the commands of all sessions begin in the order in which they were asked for, as many at a time as there are
// processors. The begin of a command is a millisecond of work: fork, exec and some frames. When many begin at the same instant and
// share the processors, all of them are done when the last one is; one after the other, the middle one is done after half that time, and
// the last one no later.
type startQueue struct{ places chan struct{} }

// beginning is how long a command may keep its place: three times what its begin takes. One that ends earlier gives it up then. So
// neither a command that runs long nor a container that has yet to be made keeps anybody waiting.
const beginning = 3 * time.Millisecond

func newStartQueue() *startQueue { return &startQueue{make(chan struct{}, runtime.GOMAXPROCS(0))} }

// take waits for a place and returns what gives it up. It does not wait longer than ctx: the caller reports that the command came too late.
func (t *startQueue) take(ctx context.Context) (done func()) {
	select {
	case t.places <- struct{}{}: // those that wait for a channel are served in order
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
