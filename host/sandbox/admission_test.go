package sandbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// bounded is a manager whose sessions are all of one sender.
func bounded(t *testing.T, l quota.Limits, change func(*sandbox.Config)) (*sandbox.Manager, sandbox.Config) {
	t.Helper()
	var m *sandbox.Manager
	var root string
	keeper := quota.New(quota.Config{
		Measure: func(session message.WorkspaceKey) int64 { return quota.Tree(workspace.Path(root, session)) },
		Running: func() map[message.WorkspaceKey]int { return m.Running() }, Place: func(message.WorkspaceKey) string { return "everywhere" },
	})
	keeper.Configure(l)
	keeper.Restore("", "ann")
	m, config := sandboxtest.Engine(t).Manager(t, func(c *sandbox.Config) {
		c.Quota, root = keeper, c.WorkspaceRoot
		if change != nil {
			change(c)
		}
	})
	return m, config
}

func TestIdleSandboxMakesRoom(t *testing.T) {
	t.Parallel()
	m, config := bounded(t, quota.Limits{SenderSandboxes: 2, SenderProcesses: 3}, nil)
	a, b := get(t, m, "a", config.Spec), get(t, m, "b", config.Spec)
	shell(t, a, "echo kept >f")
	start(t, b, machine.Command{Script: "sleep 1000"})
	c := get(t, m, "c", config.Spec) // a is idle
	start(t, c, machine.Command{Script: "sleep 1000"})
	var full quota.Refusal
	if _, err := m.Get(t.Context(), "d", "", config.Spec); !errors.As(err, &full) || errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("a third one beside two in use: %v", err)
	}
	if _, err := a.Exec(t.Context(), machine.Command{Script: "true"}); !errors.As(err, &full) {
		t.Errorf("one that has gone, beside two in use: %v", err)
	}
	for _, s := range []*sandbox.Session{b, c} {
		if list, err := s.Processes(t.Context()); err != nil || len(list) != 1 || !list[0].Running {
			t.Errorf("its process is %v (%v)", list, err)
		}
	}
	last := start(t, c, machine.Command{Script: "sleep 1000"})
	if _, err := c.Start(t.Context(), machine.Command{Script: "sleep 1000"}); !errors.As(err, &full) {
		t.Errorf("a fourth process: %v", err)
	}
	if _, err := c.Kill(t.Context(), last.ID); err != nil {
		t.Error(err)
	}
	start(t, b, machine.Command{Script: "sleep 1000"})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if text := shell(t, a, "cat f"); text != "kept\n" {
		t.Errorf("its file is %q", text)
	}
}

// A program that an agent writes has a container as well.
func TestCodeRunsCount(t *testing.T) {
	m, config := bounded(t, quota.Limits{SenderSandboxes: 2, SenderDisk: 1 << 30}, func(c *sandbox.Config) { c.Spec.DiskBytes = 1 << 20 })
	a := get(t, m, "a", config.Spec)
	shell(t, a, "true")
	wanted := spec.CodeSpec(config.Spec)
	wanted.DiskBytes = 1 << 20
	began, ended := make(chan bool, 1), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, err := m.RunCode(ctx, sandbox.Code{Spec: wanted, Language: "sh", Program: []byte("echo began; sleep 1000"), Session: "b", Progress: func(machine.Stream, []byte) {
			select {
			case began <- true:
			default:
			}
		}})
		ended <- err
	}()
	<-began
	if living := m.Living(); living["a"] != 1 || living["b"] != 1 {
		t.Errorf("%v live", living)
	}
	start(t, a, machine.Command{Script: "sleep 1000"})
	var full quota.Refusal
	if _, err := m.Get(t.Context(), "c", "", config.Spec); !errors.As(err, &full) {
		t.Errorf("a third one: %v", err)
	}
	if _, err := m.RunCode(t.Context(), sandbox.Code{Spec: wanted, Language: "sh", Program: []byte("true"), Session: "c"}); !errors.As(err, &full) {
		t.Errorf("another run: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for m.Living()["b"] > 0 { // it is removed in the background
		time.Sleep(10 * time.Millisecond)
	}
	if r, err := m.RunCode(t.Context(), sandbox.Code{Spec: wanted, Language: "sh", Program: []byte("true"), Session: "c"}); err != nil || r.ExitCode != 0 {
		t.Errorf("a run beside one sandbox: %+v (%v)", r, err)
	}
}

// An idle sandbox gives up what it has reserved before another one of its sender's gets less than it asks for.
func TestIdleSandboxFreesDisk(t *testing.T) {
	m, config := bounded(t, quota.Limits{SenderDisk: 50 << 20}, func(c *sandbox.Config) { c.Spec.DiskBytes = 40 << 20 })
	a := get(t, m, "a", config.Spec)
	shell(t, a, "true")
	b := get(t, m, "b", config.Spec)
	if r := run(t, b, machine.Command{Script: "dd if=/dev/zero of=f bs=1M count=20 2>/dev/null; sleep 1"}); r.DiskHit {
		t.Errorf("20 MiB of 40: %+v", r)
	}
	if living := m.Living(); living["a"] != 0 || living["b"] != 1 {
		t.Errorf("%v live", living)
	}
}

// A sender's next container may hold only what his other sessions leave.
func TestSandboxesShareTheDisk(t *testing.T) {
	t.Parallel()
	m, config := bounded(t, quota.Limits{SenderDisk: 50 << 20}, func(c *sandbox.Config) { c.Spec.DiskBytes = 40 << 20 })
	a := get(t, m, "a", config.Spec)
	start(t, a, machine.Command{Script: "sleep 1000"})
	b := get(t, m, "b", config.Spec)
	const fill = "i=0; while [ $i -lt 20 ]; do i=$((i+1)); dd if=/dev/zero of=f$i bs=1M count=1 2>/dev/null; done; sleep 1"
	if r := run(t, b, machine.Command{Script: fill}); !r.DiskHit {
		t.Errorf("20 MiB of 10: %+v", r)
	}
	if r := run(t, a, machine.Command{Script: fill}); r.DiskHit {
		t.Errorf("20 MiB of 40: %+v", r)
	}
	shell(t, b, "rm -f f*")
}
