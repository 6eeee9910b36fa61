// Package debts removes containers, and sees to it that those are gone in the end whose engine does not remove them: it is
// stopped, it hangs, or it may yet make one whose making it was too slow to confirm.
//
// Start with Ledger.Remove. What was owed by a process that is gone is found by its label at the next start, which is for
// package sandbox.
package debts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Engine is what containers are on.
type Engine interface {
	// Ping says whether the engine gives a sign of life, and says so soon.
	Ping(ctx context.Context) error
	// Remove removes a container by its id or name. One that does not exist is no error.
	Remove(ctx context.Context, id string) error
}

// Ledger has the containers that should be gone and are not, and tries them again until they are. Its methods are safe for
// concurrent use.
type Ledger struct {
	engine Engine
	log    *slog.Logger
	kick   chan struct{} // wakes Run, buffered
	ending chan struct{} // holds a token for each container that is being ended on purpose

	mu   sync.Mutex
	owed map[string]time.Time // by id or name: until when the container may still appear
}

const (
	// maxEnding bounds the containers that are ended at a time: the network code of older engines deadlocks when some dozens
	// end at once, and hangs the whole engine for good (20.10: processEndpointDelete against getSvcRecords).
	maxEnding = 8
	// retryAfter separates attempts.
	retryAfter = 5 * time.Second
	// unheardFor is how long an engine may take to make a container that was ordered and given up.
	unheardFor = 2 * time.Minute
	// abandonTimeout is how long a caller that wanted a container waits for the removal of an unfinished one.
	abandonTimeout = 5 * time.Second
)

// New returns a Ledger without debts.
func New(e Engine, log *slog.Logger) *Ledger {
	return &Ledger{engine: e, log: log, kick: make(chan struct{}, 1), ending: make(chan struct{}, maxEnding), owed: make(map[string]time.Time)}
}

// Turn waits until a container may be ended on purpose; done lets the next one.
func (l *Ledger) Turn() (done func()) {
	l.ending <- struct{}{}
	return func() { <-l.ending }
}

// Remove removes a container, or owes that. An engine that gives no sign of life is not waited for.
func (l *Ledger) Remove(ctx context.Context, id string) error {
	err := l.engine.Ping(ctx)
	if err == nil {
		err = l.engine.Remove(ctx, id)
	}
	if err != nil {
		l.log.Error("cannot remove a sandbox container; trying again later", "container", id, "error", err)
		l.owe(id, time.Time{})
	}
	return err
}

// Abandon removes what an unfinished launch may have left. created is why its container could not be made, if so.
func (l *Ledger) Abandon(id string, created error) {
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	if created == nil {
		_ = l.Remove(ctx, id) // a failure is owed
		return
	}
	if errors.Is(created, machine.ErrUnavailable) {
		l.owe(id, time.Now().Add(unheardFor))
	}
}

func (l *Ledger) owe(id string, until time.Time) {
	l.mu.Lock()
	l.owed[id] = until
	l.mu.Unlock()
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// Run pays debts until ctx ends.
func (l *Ledger) Run(ctx context.Context) {
	var pause <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.kick:
		case <-pause:
		}
		pause = nil
		if l.pay(ctx) > 0 {
			pause = time.After(retryAfter)
		}
	}
}

// pay tries every debt once and returns how many are left.
func (l *Ledger) pay(ctx context.Context) int {
	l.mu.Lock()
	owed := maps.Clone(l.owed)
	l.mu.Unlock()
	if len(owed) == 0 || l.engine.Ping(ctx) != nil {
		return len(owed)
	}
	for id, until := range owed {
		if l.engine.Remove(ctx, id) == nil && time.Now().After(until) {
			l.mu.Lock()
			delete(l.owed, id)
			l.mu.Unlock()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.owed)
}

// Settle tries every debt for the last time. What was made unheard since is found by its label at the next start.
func (l *Ledger) Settle(ctx context.Context) error {
	l.pay(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	var all error
	for id, until := range l.owed {
		if until.IsZero() {
			all = errors.Join(all, fmt.Errorf("%w: container %s is left: remove it with: flynn sandbox prune", machine.ErrUnavailable, id))
		}
	}
	return all
}
