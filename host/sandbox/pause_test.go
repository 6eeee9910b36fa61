package sandbox_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// running runs a Manager until the test ends.
func running(t testing.TB, m *sandbox.Manager) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _ = m.Run(ctx) })
	t.Cleanup(func() { cancel(); all.Wait() })
}

// still reports whether the image's own process stands still.
func still(t testing.TB, h sandboxtest.Host, id string) bool {
	t.Helper()
	top, err := h.API.ContainerTop(t.Context(), id, []string{"-eo", "pid,stat,args"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range top.Processes {
		if p[2] == "sleep 86399" {
			return strings.HasPrefix(p[1], "T")
		}
	}
	t.Fatalf("no process of the image: %v", top.Processes)
	return false
}

// imagesOwn is a process of the image's, which runs beside the session's commands.
func imagesOwn(c *sandbox.Config) { c.Spec.Start = []string{"sleep", "86399"} }

func TestIdleContainersSleep(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, imagesOwn, func(c *sandbox.Config) {
		c.PauseAfter, c.Lease = 100*time.Millisecond, 5*time.Second
	})
	s := get(t, m, "s", config.Spec)
	id := containers(t, h, config.Instance)[0].ID
	p := start(t, s, machine.Command{Script: "echo kept; sleep 1"})
	running(t, m)
	if ended, err := s.Wait(t.Context(), p.ID); err != nil || ended.Result.ExitCode != 0 {
		t.Fatalf("a container with a running process was paused: %+v (%v)", ended, err)
	}
	for name, call := range map[string]func(){
		"exec": func() {
			if got := shell(t, s, "grep -s State /proc/[0-9]*/status | grep -c 'T (stopped)'; true"); got != "0\n" {
				t.Errorf("%s processes stand still beside a command", got)
			}
		},
		"output": func() { output(t, s, p.ID, 0, 10) },
		"file": func() {
			if err := s.WriteFile(t.Context(), "f", []byte("x"), 0); err != nil {
				t.Error(err)
			}
		},
		"kill": func() {
			if _, err := s.Kill(t.Context(), p.ID); err != nil {
				t.Error(err)
			}
		},
		"together": func() {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { shell(t, s, "true") })
			}
			all.Wait()
		},
	} {
		eventually(t, "it stands still before "+name, func() bool { return still(t, h, id) })
		call()
	}
	if now := containers(t, h, config.Instance); len(now) != 1 || now[0].ID != id {
		t.Errorf("the container was replaced: %+v", now)
	}
	eventually(t, "it stands still", func() bool { return still(t, h, id) })
	if err := m.Destroy(t.Context(), "s"); err != nil {
		t.Error(err)
	}
}

// From pause to stop, and the age that counts from the start.
func TestIdleLadder(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	for name, adjust := range map[string]func(c *sandbox.Config){
		"idle": func(c *sandbox.Config) { c.PauseAfter, c.IdleAfter = 50*time.Millisecond, 700*time.Millisecond },
		"old":  func(c *sandbox.Config) { c.PauseAfter, c.MaxAge = 50*time.Millisecond, 700*time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			m, config := h.Manager(t, adjust)
			s := get(t, m, "s", config.Spec)
			running(t, m)
			eventually(t, "it is gone", func() bool { return len(containers(t, h, config.Instance)) == 0 })
			shell(t, s, "true")
		})
	}
}

// Calls that come while a pause begins find the container running, whatever the moment.
func TestPauseAndUseAtOnce(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, func(c *sandbox.Config) { c.PauseAfter = time.Millisecond })
	s := get(t, m, "s", config.Spec)
	id := containers(t, h, config.Instance)[0].ID
	running(t, m)
	for i := range 60 {
		select {
		case <-time.After(time.Duration(i%12) * time.Millisecond):
		case <-t.Context().Done():
		}
		shell(t, s, "true")
	}
	if now := containers(t, h, config.Instance); len(now) != 1 || now[0].ID != id {
		t.Errorf("the container was replaced: %+v", now)
	}
}

// An old container goes as soon as it is idle, and not only when somebody looks after the idle ones again.
func TestOldContainerGoesAtItsFirstIdleMoment(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, func(c *sandbox.Config) { c.MaxAge = 100 * time.Millisecond })
	s := get(t, m, "s", config.Spec)
	running(t, m) // looks once a minute
	shell(t, s, "echo kept > f; sleep 0.2")
	eventually(t, "it is gone", func() bool { return len(containers(t, h, config.Instance)) == 0 })
	if got := shell(t, s, "cat f"); got != "kept\n" {
		t.Errorf("got %q", got)
	}
}
