package machine

import (
	"context"
	"sync"
	"time"
)

type noticeKey struct{}

// WithNotice returns a context under which Notice calls tell, for a person who waits for a machine to start. tell must not block for long
// and may be called by several goroutines.
func WithNotice(ctx context.Context, tell func(line string)) context.Context {
	return context.WithValue(ctx, noticeKey{}, tell)
}

// Notice tells the audience of ctx, in one line, what it is waiting for.
func Notice(ctx context.Context, line string) {
	if tell, ok := ctx.Value(noticeKey{}).(func(string)); ok {
		tell(line)
	}
}

// slow is how long something may take before the audience is told what it waits for.
const slow = 2 * time.Second

// NoticeSlow tells the audience of ctx the line if done is not called soon.
func NoticeSlow(ctx context.Context, line string) (done func()) {
	later := time.AfterFunc(slow, func() { Notice(ctx, line) })
	return func() { later.Stop() }
}

// Audience is the set of callers that wait for one slow operation. Its zero value is empty, its methods are safe for concurrent use.
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

// Tell passes a line to all waiting callers.
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

// Throttle passes on at most one line per period. Of the lines within a period it passes on the last one when the period is over. After
// stop it passes on nothing.
func Throttle(period time.Duration, tell func(line string)) (throttled func(line string), stop func()) {
	t := &throttle{period: period, tell: tell}
	return t.line, t.stop
}

type throttle struct {
	period time.Duration
	tell   func(string)

	mu      sync.Mutex // held while a line is passed on, so that stop waits for that
	timer   *time.Timer
	kept    string
	waiting bool // the timer runs
	stopped bool
}

func (t *throttle) line(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.stopped:
	case t.waiting:
		t.kept = line
	default:
		t.say(line)
	}
}

// say passes a line on and starts a period; t.mu is held.
func (t *throttle) say(line string) {
	t.kept, t.waiting = "", true
	t.tell(line)
	t.timer = time.AfterFunc(t.period, t.over)
}

// over ends a period.
func (t *throttle) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = false
	if !t.stopped && t.kept != "" {
		t.say(t.kept)
	}
}

func (t *throttle) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
}
