package machine

import (
	"context"
	"sync"
)

// Audience is everybody who waits for one thing that takes its time. Its zero value is empty, its methods are safe for
// concurrent use.
type Audience struct {
	mu      sync.Mutex
	waiting map[*context.Context]struct{} // by identity: a context need not be comparable
	last    string
}

// Join passes the last line, and every further one until leave is called, to the audience of ctx.
func (a *Audience) Join(ctx context.Context) (leave func()) {
	if _, listens := ctx.Value(noticeKey{}).(func(string)); !listens {
		return func() {}
	}
	seat := &ctx
	a.mu.Lock()
	if a.waiting == nil {
		a.waiting = make(map[*context.Context]struct{})
	}
	a.waiting[seat] = struct{}{}
	last := a.last
	a.mu.Unlock()
	if last != "" {
		Notice(ctx, last)
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, seat)
	}
}

// Tell tells them all.
func (a *Audience) Tell(line string) {
	a.mu.Lock()
	a.last = line
	all := make([]context.Context, 0, len(a.waiting))
	for seat := range a.waiting {
		all = append(all, *seat)
	}
	a.mu.Unlock()
	for _, ctx := range all {
		Notice(ctx, line)
	}
}
