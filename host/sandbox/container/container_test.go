package container

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
)

// oneContainer is a driver of a container that can be removed once the engine works.
type oneContainer struct {
	driver.Driver
	mu      sync.Mutex
	down    error
	removed []string
}

func (d *oneContainer) Ping(context.Context) error { return nil }

func (d *oneContainer) Remove(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down == nil {
		d.removed = append(d.removed, id)
	}
	return d.down
}

func (d *oneContainer) set(down error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = down
}

// serving returns a container that is up, and the supervisor's end of its connection.
func serving(t *testing.T) (*Container, *oneContainer, net.Conn) {
	t.Helper()
	d, keys := &oneContainer{}, NewKeys(nil)
	c := New(Config{
		ID: "c1", Born: time.Now(), Driver: d, Reaper: reaper.New(d, slog.New(slog.DiscardHandler)), Ownership: keys.Own(t.TempDir(), "k"),
		Log: slog.New(slog.DiscardHandler),
	})
	here, there := net.Pipe()
	go func() { // whatever the host says
		r := frame.NewReader(there, frame.SupervisorSide)
		for {
			if _, err := r.Next(); err != nil {
				return
			}
		}
	}()
	c.Connect(here, nil, "/workspace", "/bin/sh")
	go c.Link.Serve(frame.NewReader(here, frame.HostSide))
	c.Serve()
	t.Cleanup(func() {
		there.Close()
		if keys.Holds("k") {
			t.Error("the key is still held")
		}
	})
	return c, d, there
}

func TestContainerIsNotEndedUnderACall(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c, d, _ := serving(t)
	if !c.Enter(2) || c.Dismiss() || c.MarkIdle() {
		t.Error("a container in use was dismissed or paused")
	}
	if c.Return() || !c.Return() {
		t.Error("calls were miscounted")
	}
	if !c.MarkIdle() || !c.Enter(1) {
		t.Fatal("a container that is about to pause takes no call")
	}
	if c.Pause(); c.phase() == Paused {
		t.Error("it was paused under a call")
	}
	c.Wake()
	c.Return()
	if !c.Dismiss() || c.Dismiss() || c.Enter(1) || !c.Dead() {
		t.Error("a call entered a container that is being ended")
	}
	gone := 0
	c.OnceRemoved(func() { gone++ })
	for range 2 {
		if err := c.End(); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"c1"}; !slices.Equal(d.removed, want) || gone != 1 || c.phase() != Gone {
		t.Errorf("removed %v, reported %d times, %s", d.removed, gone, c.phase())
	}
}

func TestContainerWhoseConnectionIsLost(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c, d, supervisor := serving(t)
	away := errors.New("the engine is away")
	d.set(away)
	c.Enter(1)
	supervisor.Close()
	<-c.gone
	if c.Enter(1) || c.Leave() || !c.Dead() {
		t.Error("a lost container goes on")
	}
	if _, err := c.Exec(t.Context(), machine.Command{Script: ":"}); !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("a call in it got %v", err)
	}
	if err := c.Settle(); !errors.Is(err, away) || c.phase() == Gone {
		t.Errorf("settled with %v, %s", err, c.phase())
	}
	d.set(nil)
	if err := c.Settle(); err != nil || c.phase() != Gone {
		t.Errorf("settled with %v, %s", err, c.phase())
	}
	if err := c.Settle(); err != nil || len(d.removed) != 1 {
		t.Errorf("removed %v (%v)", d.removed, err)
	}
}
