package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/machine"
)

// debts are the containers that should be gone while their engine does not remove them: it is stopped, it hangs, or it
// may yet make one whose making it was too slow to confirm. They are tried again until they are gone.
type debts struct {
	driver Driver
	log    *slog.Logger
	kick   chan struct{} // wakes run, buffered
	ending chan struct{} // holds a token for each container that is being ended on purpose

	mu   sync.Mutex
	owed map[string]time.Time // by id or name: until when the container may still appear
}

const (
	// maxEnding bounds the containers that are ended at a time: the network code of older engines deadlocks when some dozens
	// end at once, and hangs the whole engine for good (20.10: processEndpointDelete against getSvcRecords).
	maxEnding = 8
	// debtPause separates attempts.
	debtPause = 5 * time.Second
	// unheardFor is how long an engine may take to make a container that was ordered and given up.
	unheardFor = 2 * time.Minute
	// abandonTimeout is how long whoever wanted a container waits for the removal of what came of it.
	abandonTimeout = 5 * time.Second
)

func newDebts(d Driver, log *slog.Logger) *debts {
	return &debts{driver: d, log: log, kick: make(chan struct{}, 1), ending: make(chan struct{}, maxEnding), owed: make(map[string]time.Time)}
}

// remove removes a container, or owes that. An engine that gives no sign of life is not waited for.
func (d *debts) remove(ctx context.Context, id string) error {
	err := d.driver.Ping(ctx)
	if err == nil {
		err = d.driver.Remove(ctx, id)
	}
	if err != nil {
		d.log.Error("sandbox container could not be removed, trying again later", "container", id, "error", err)
		d.owe(id, time.Time{})
	}
	return err
}

// abandon removes what an unfinished launch may have left. created is why its container could not be made, if so.
func (d *debts) abandon(id string, created error) {
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	if created == nil {
		_ = d.remove(ctx, id) // a failure is owed
		return
	}
	if errors.Is(created, machine.ErrUnavailable) {
		d.owe(id, time.Now().Add(unheardFor))
	}
}

func (d *debts) owe(id string, until time.Time) {
	d.mu.Lock()
	d.owed[id] = until
	d.mu.Unlock()
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// settleFor makes sure that a box is gone, so that nothing in it writes to the workspace any more.
func (d *debts) settleFor(b *box) error {
	if b == nil {
		return nil
	}
	<-b.gone
	if b.removal == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	if err := errors.Join(b.project.remove(), d.remove(ctx, b.id)); err != nil {
		return err
	}
	b.isRemoved()
	return nil
}

// run pays debts until ctx ends.
func (d *debts) run(ctx context.Context) {
	var pause <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.kick:
		case <-pause:
		}
		pause = nil
		if d.pay(ctx) > 0 {
			pause = time.After(debtPause)
		}
	}
}

// pay tries every debt once and returns how many are left.
func (d *debts) pay(ctx context.Context) int {
	d.mu.Lock()
	owed := make(map[string]time.Time, len(d.owed))
	for id, until := range d.owed {
		owed[id] = until
	}
	d.mu.Unlock()
	if len(owed) == 0 || d.driver.Ping(ctx) != nil {
		return len(owed)
	}
	for id, until := range owed {
		if d.driver.Remove(ctx, id) == nil && time.Now().After(until) {
			d.mu.Lock()
			delete(d.owed, id)
			d.mu.Unlock()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.owed)
}

// settle tries every debt for the last time. What was made unheard since is found by its label at the next start.
func (d *debts) settle(ctx context.Context) error {
	d.pay(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	var all error
	for id, until := range d.owed {
		if until.IsZero() {
			all = errors.Join(all, fmt.Errorf("%w: container %s is left: remove it with: flynn sandbox prune", machine.ErrUnavailable, id))
		}
	}
	return all
}

// Locator is a Driver that can tell where its engine is.
type Locator interface {
	Address() string
}

// whyLost is what people are told when the container's stream has ended by itself.
func (b *box) whyLost() error {
	if err := b.driver.Ping(context.Background()); err != nil {
		return errors.New(machine.Reason(err))
	}
	where := ""
	if l, ok := b.driver.(Locator); ok {
		where = " on engine " + l.Address()
	}
	return fmt.Errorf("its container ended%s: the next command gets a new one", where)
}
