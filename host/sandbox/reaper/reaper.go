// Package reaper removes containers, and tries again if the engine fails: because it is stopped or hangs, or because it may still create a
// container that it was too slow to confirm.
//
// Start with Reaper.Remove. The package does not handle the containers of ended processes: package reconcile finds them by their labels at
// the next start.
package reaper

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

// Engine runs the containers.
type Engine interface {
	// Ping reports quickly whether the engine answers.
	Ping(ctx context.Context) error
	// Remove removes a container by id or name. It is not an error if it does not exist.
	Remove(ctx context.Context, id string) error
}

// Reaper removes containers, retrying until they are gone. Its methods are safe for concurrent use.
type Reaper struct {
	engine Engine
	log    *slog.Logger
	kick   chan struct{} // wakes Run, buffered
	ending chan struct{} // holds a token for each container that is being removed on purpose

	mu   sync.Mutex
	owed map[string]time.Time // by id or name: until when the container may still appear
}

const (
	// maxEnding bounds the containers that are removed at the same time: in older engines the network code deadlocks when some dozens end
	// at once, and the whole engine hangs for good (20.10: processEndpointDelete against getSvcRecords).
	maxEnding = 8
	// retryAfter is the interval between attempts.
	retryAfter = 5 * time.Second
	// unheardFor is how long an engine may take to create a container after the caller has given up.
	unheardFor = 2 * time.Minute
	// abandonTimeout is how long the caller of a failed launch waits for the removal of an unfinished container.
	abandonTimeout = 5 * time.Second
)

// New returns a Reaper.
func New(e Engine, log *slog.Logger) *Reaper {
	return &Reaper{engine: e, log: log, kick: make(chan struct{}, 1), ending: make(chan struct{}, maxEnding), owed: make(map[string]time.Time)}
}

// Slot waits until a container may be removed on purpose; done frees the slot.
func (r *Reaper) Slot() (done func()) {
	r.ending <- struct{}{}
	return func() { <-r.ending }
}

// Remove removes a container, or schedules that. It does not wait for an engine that gives no sign of life.
func (r *Reaper) Remove(ctx context.Context, id string) error {
	err := r.engine.Ping(ctx)
	if err == nil {
		err = r.engine.Remove(ctx, id)
	}
	if err != nil {
		r.log.Error("cannot remove a sandbox container; trying again later", "container", id, "error", err)
		r.owe(id, time.Time{})
	}
	return err
}

// Abandon removes what an unfinished launch may have left. created is the error of the container's creation, if any.
func (r *Reaper) Abandon(id string, created error) {
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	if created == nil {
		_ = r.Remove(ctx, id) // a failure is retried later
		return
	}
	if errors.Is(created, machine.ErrUnavailable) {
		r.owe(id, time.Now().Add(unheardFor))
	}
}

func (r *Reaper) owe(id string, until time.Time) {
	r.mu.Lock()
	r.owed[id] = until
	r.mu.Unlock()
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Run retries failed removals until ctx ends.
func (r *Reaper) Run(ctx context.Context) {
	var pause <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.kick:
		case <-pause:
		}
		pause = nil
		if r.pay(ctx) > 0 {
			pause = time.After(retryAfter)
		}
	}
}

// pay retries every removal once and returns how many are left.
func (r *Reaper) pay(ctx context.Context) int {
	r.mu.Lock()
	owed := maps.Clone(r.owed)
	r.mu.Unlock()
	if len(owed) == 0 || r.engine.Ping(ctx) != nil {
		return len(owed)
	}
	for id, until := range owed {
		if r.engine.Remove(ctx, id) == nil && time.Now().After(until) {
			r.mu.Lock()
			delete(r.owed, id)
			r.mu.Unlock()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.owed)
}

// Settle retries every removal for the last time. A container that the engine creates later is found by its label at the next start.
func (r *Reaper) Settle(ctx context.Context) error {
	r.pay(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	var all error
	for id, until := range r.owed {
		if until.IsZero() {
			all = errors.Join(all, fmt.Errorf("%w: container %s is left: remove it with: flynn sandbox prune", machine.ErrUnavailable, id))
		}
	}
	return all
}

// together is how many elements Each handles at the same time.
const together = 4

// Each calls do for all elements, a few at a time, and joins their errors.
func Each[T any](all []T, do func(T) error) error {
	var running sync.WaitGroup
	slots := make(chan struct{}, together)
	errs := make([]error, len(all))
	for i, one := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(one)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}
