package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
)

// engine is one that can be stopped.
type engine struct {
	mu      sync.Mutex
	stopped bool
	there   map[string]bool
	removed int // calls
}

var errStopped = fmt.Errorf("%w: it is stopped", machine.ErrUnavailable)

func (e *engine) Ping(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return errStopped
	}
	return nil
}

func (e *engine) Remove(_ context.Context, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return errors.New("it was asked although it gives no sign of life")
	}
	e.removed++
	delete(e.there, id)
	return nil
}

// set changes the engine and returns how often it was asked to remove a container.
func (e *engine) set(stopped bool, make ...string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = stopped
	for _, id := range make {
		e.there[id] = true
	}
	return e.removed
}

func (e *engine) has(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.there[id]
}

// running returns a Reaper of an engine with one container, c, at work until the test ends.
func running(t *testing.T) (*reaper.Reaper, *engine) {
	e := &engine{there: map[string]bool{"c": true}}
	l := reaper.New(e, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { l.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return l, e
}

func TestRemovalIsTriedUntilTheEngineIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e := running(t)
		e.set(true)
		if err := l.Remove(t.Context(), "c"); !errors.Is(err, errStopped) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Hour)
		if err := l.Settle(t.Context()); !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), "container c is left: remove it with") {
			t.Errorf("at the end: %v", err)
		}
		e.set(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if e.has("c") {
			t.Error("the container is there")
		}
		if err := l.Settle(t.Context()); err != nil {
			t.Errorf("nothing is owed: %v", err)
		}
		if asked := e.set(false); asked != 1 {
			t.Errorf("%d removals", asked)
		}
	})
}

// A container whose making was given up may come to be long after its name was found to be free.
func TestContainerThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e := running(t)
		l.Abandon("late", errStopped)
		time.Sleep(time.Minute)
		e.set(false, "late")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if e.has("late") {
			t.Error("the container is there")
		}
		if err := l.Settle(t.Context()); err != nil {
			t.Errorf("a container that may come is no failure: %v", err)
		}
		time.Sleep(time.Minute)
		asked := e.set(false)
		if time.Sleep(time.Hour); e.set(false) != asked {
			t.Error("it is looked for for ever")
		}
	})
}

func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e := running(t)
		l.Abandon("c", errors.New("there is no such image"))
		time.Sleep(time.Hour)
		if asked := e.set(false); asked != 0 {
			t.Errorf("%d removals of what the engine refused to make", asked)
		}
		l.Abandon("c", nil)
		if e.has("c") {
			t.Error("what was made is there")
		}
		e.set(true, "d")
		l.Abandon("d", nil)
		e.set(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if e.has("d") {
			t.Error("what was made while the engine stopped is there")
		}
	})
}

func TestFewEndAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := running(t)
		var mu sync.Mutex
		var now, most int
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			now += n
			most = max(most, now)
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				defer l.Slot()()
				count(1)
				time.Sleep(time.Second)
				count(-1)
			})
		}
		all.Wait()
		if now != 0 || most != 8 {
			t.Errorf("%d at a time, %d still", most, now)
		}
	})
}
