package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// sleeper runs a command that does not end by itself, and returns once it runs.
func sleeper(t *testing.T, s *sandbox.Session) <-chan error {
	t.Helper()
	started, failed := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		_, err := s.Exec(t.Context(), machine.Command{Script: "echo started; sleep 1000", Timeout: 10 * time.Minute, Progress: func(machine.Stream, []byte) { started <- struct{}{} }})
		failed <- err
	}()
	select {
	case <-started:
	case err := <-failed:
		t.Fatalf("command did not start: %v", err)
	}
	return failed
}

// unavailable checks that an error is typed, came in time, and says what it should.
func unavailable(t *testing.T, what string, err error, took, within time.Duration, words ...string) {
	t.Helper()
	if !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("%s: got %v", what, err)
		return
	}
	t.Logf("%s, after %v: %v", what, took.Round(time.Millisecond), err)
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
	if took > within {
		t.Errorf("%s: took %v, not %v", what, took, within)
	}
}

// attempt runs a command that is expected to fail for the sandbox's sake.
func attempt(t *testing.T, s *sandbox.Session, within time.Duration, words ...string) {
	t.Helper()
	began := time.Now()
	_, err := s.Exec(t.Context(), machine.Command{Script: "true"})
	unavailable(t, "command in trouble", err, time.Since(began), within, words...)
}

// quick is how soon a call fails that needs an engine which does not answer, and slack what a loaded machine adds.
const (
	quick = 10 * time.Second
	slack = 30 * time.Second
)

func TestEngineStopsAndComesBack(t *testing.T) {
	t.Parallel()
	e := sandboxtest.Own(t)
	m, config := e.Manager(t)
	s := get(t, m, "s", config.Spec)
	shell(t, s, "echo kept > f")
	failed := sleeper(t, s)
	e.Stop()
	began := time.Now()
	unavailable(t, "running command", <-failed, time.Since(began), quick+slack, e.Socket())
	attempt(t, s, quick+slack, e.Socket(), "start Docker")
	e.Start()
	if got := shell(t, s, "cat f"); got != "kept\n" {
		t.Errorf("afterwards: %q", got)
	}
}

// An engine that is killed leaves its containers alive, whose workspaces must not get a second one.
func TestEngineCrashesAndComesBack(t *testing.T) {
	t.Parallel()
	e := sandboxtest.Own(t)
	m, config := e.Manager(t)
	s := get(t, m, "s", config.Spec)
	shell(t, s, "echo kept > f")
	failed := sleeper(t, s)
	e.Crash()
	began := time.Now()
	unavailable(t, "running command", <-failed, time.Since(began), quick+slack, e.Socket(), "start Docker")
	attempt(t, s, quick+slack, e.Socket(), "start Docker")
	e.Start()
	if got := shell(t, s, "cat f"); got != "kept\n" {
		t.Errorf("afterwards: %q", got)
	}
	if n := len(containers(t, e.Host, config.Instance)); n != 1 {
		t.Errorf("%d containers afterwards", n)
	}
}

// Running commands go on while the engine hangs; only calls that need the engine fail.
func TestEngineHangs(t *testing.T) {
	t.Parallel()
	e := sandboxtest.Own(t)
	m, config := e.Manager(t)
	s := get(t, m, "s", config.Spec)
	shell(t, s, "true")
	doomed := get(t, m, "doomed", config.Spec)
	look(t, m)
	e.Freeze()
	if got := shell(t, s, "echo unharmed"); got != "unharmed\n" {
		t.Errorf("while the engine hangs: %q", got)
	}
	began := time.Now()
	_, err := m.Get(t.Context(), "new", "sandbox", config.Spec)
	unavailable(t, "new session", err, time.Since(began), quick+slack, e.Socket(), "restart")
	began = time.Now()
	err = doomed.Close()
	unavailable(t, "close", err, time.Since(began), quick+slack, e.Socket(), "restart")
	e.Thaw()
	shell(t, get(t, m, "new", config.Spec), "true")
	shell(t, s, "true")
	eventually(t, "the container that could not be removed is gone", func() bool { return len(containers(t, e.Host, config.Instance)) == 2 })
}

// look has the manager do its background work for as long as the test runs.
func look(t *testing.T, m *sandbox.Manager) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// Every answer takes 30 s. The container that the engine has made meanwhile, unheard, is not left behind.
func TestEngineIsSlow(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	slow := wayTo(t, strings.TrimPrefix(h.API.DaemonHost(), "unix://"))
	engine, err := docker.New(docker.Config{Engine: slow.address})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	m, config := h.Manager(t, func(c *sandbox.Config) { c.Driver = engine })
	s := get(t, m, "s", config.Spec)
	shell(t, s, "true")
	slow.delay.Store(int64(30 * time.Second))
	if got := shell(t, s, "echo unharmed"); got != "unharmed\n" {
		t.Errorf("while the engine is slow: %q", got)
	}
	began := time.Now()
	_, err = m.Get(t.Context(), "new", "sandbox", config.Spec)
	unavailable(t, "new session", err, time.Since(began), quick+slack, slow.address, "restart")
	began = time.Now()
	_, err = engine.Create(t.Context(), driver.Container{
		Key: "slow", Name: "flynn-slow-" + config.Instance, Image: sandboxtest.Image, Entrypoint: []string{"/bin/true"}, Network: "none",
		Labels: map[string]string{driver.LabelInstance: config.Instance},
	})
	unavailable(t, "create", err, time.Since(began), 30*time.Second+slack, slow.address, "restart")
	slow.delay.Store(0)
	if err := h.Driver.Remove(t.Context(), "flynn-slow-"+config.Instance); err != nil {
		t.Error(err)
	}
	shell(t, get(t, m, "new", config.Spec), "true")
}

// The engine becomes slow between the look at it and the making of a container.
func TestContainerMadeUnheardIsRemoved(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, func(c *sandbox.Config) { c.Driver = &deafDriver{Driver: h.Driver} })
	look(t, m)
	_, err := m.Get(t.Context(), "s", "sandbox", config.Spec)
	unavailable(t, "unheard", err, 0, time.Second)
	eventually(t, "the container made unheard is gone", func() bool { return len(containers(t, h, config.Instance)) == 0 })
	shell(t, get(t, m, "s", config.Spec), "true")
}

// deafDriver does not hear of the first container that it makes, and neither can it remove that at once.
type deafDriver struct {
	driver.Driver
	creates, removes atomic.Int32
}

func (d *deafDriver) Create(ctx context.Context, c driver.Container) (string, error) {
	id, err := d.Driver.Create(ctx, c)
	if d.creates.Add(1) == 1 {
		return "", fmt.Errorf("%w: too slow", machine.ErrUnavailable)
	}
	return id, err
}

func (d *deafDriver) Remove(ctx context.Context, id string) error {
	if d.removes.Add(1) == 1 {
		return fmt.Errorf("%w: too slow", machine.ErrUnavailable)
	}
	return d.Driver.Remove(ctx, id)
}

// A full disk stops new containers, and only those.
func TestEngineDiskFull(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "flynn-engine-")
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=48m,mode=0711", "tmpfs", data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	e := sandboxtest.OwnIn(t, dir)
	m, config := e.Manager(t)
	s := get(t, m, "s", config.Spec)
	fill := filepath.Join(data, "fill")
	if err := os.WriteFile(fill, make([]byte, 64<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if got := shell(t, s, "echo unharmed >f; cat f"); got != "unharmed\n" {
		t.Errorf("on a full disk: %q", got)
	}
	began := time.Now()
	_, err = m.Get(t.Context(), "new", "sandbox", config.Spec)
	unavailable(t, "new session", err, time.Since(began), quick+slack, e.Socket(), "full", "make room")
	if n := len(containers(t, e.Host, config.Instance)); n != 1 {
		t.Errorf("%d containers on a full disk", n)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	shell(t, get(t, m, "new", config.Spec), "true")
}

// The engine restarts a keeper of containers that has died; until then, and with one that hangs, nothing starts.
func TestContainerdInTrouble(t *testing.T) {
	t.Parallel()
	e := sandboxtest.Own(t)
	m, config := e.Manager(t)
	look(t, m)
	s := get(t, m, "s", config.Spec)
	e.FreezeContainerd()
	if got := shell(t, s, "echo unharmed"); got != "unharmed\n" {
		t.Errorf("while containerd hangs: %q", got)
	}
	began := time.Now()
	_, err := m.Get(t.Context(), "new", "sandbox", config.Spec)
	unavailable(t, "new session", err, time.Since(began), 35*time.Second+slack, e.Socket(), "start container", "restart")
	e.ThawContainerd()
	shell(t, get(t, m, "new", config.Spec), "true")
	eventually(t, "the container that was started too late is gone", func() bool { return len(containers(t, e.Host, config.Instance)) == 2 })

	e.KillContainerd()
	if got := shell(t, s, "echo unharmed"); got != "unharmed\n" {
		t.Errorf("without containerd: %q", got)
	}
	began = time.Now()
	if _, err := m.Get(t.Context(), "third", "sandbox", config.Spec); err != nil {
		unavailable(t, "new session", err, time.Since(began), 35*time.Second+slack, e.Socket(), "restart")
	}
	eventually(t, "sandboxes are made again", func() bool {
		_, err := m.Get(t.Context(), "third", "sandbox", config.Spec)
		return err == nil
	})
}

func TestImageGone(t *testing.T) {
	t.Parallel()
	e := sandboxtest.Own(t)
	m, config := e.Manager(t)
	s := get(t, m, "s", config.Spec)
	if _, err := e.API.ImageRemove(t.Context(), sandboxtest.Image, image.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if got := shell(t, s, "echo unharmed"); got != "unharmed\n" {
		t.Errorf("without its image: %q", got)
	}
	began := time.Now()
	_, err := m.Get(t.Context(), "new", "sandbox", config.Spec)
	unavailable(t, "new session", err, time.Since(began), time.Minute, e.Socket(), "docker pull "+sandboxtest.Image)
}

// Somebody meddles with a container while a command runs in it.
func TestContainerMeddledWith(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	for _, c := range []struct {
		name   string
		meddle func(id string) error
	}{
		{"removed", func(id string) error {
			return h.API.ContainerRemove(t.Context(), id, container.RemoveOptions{Force: true})
		}},
		{"killed", func(id string) error { return h.API.ContainerKill(t.Context(), id, "KILL") }},
		{"stopped", func(id string) error {
			return h.API.ContainerStop(t.Context(), id, container.StopOptions{Timeout: new(int)})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, config := h.Manager(t)
			s := get(t, m, "s", config.Spec)
			other := get(t, m, "other", config.Spec)
			shell(t, s, "echo kept > f")
			failed := sleeper(t, s)
			others := sleeper(t, other)
			id := containersOf(t, h, config.Instance, "s")[0].ID
			if err := c.meddle(id); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			unavailable(t, "running command", <-failed, time.Since(began), quick+slack, "next command")
			if got := shell(t, s, "cat f"); got != "kept\n" {
				t.Errorf("afterwards: %q", got)
			}
			select {
			case err := <-others:
				t.Errorf("the other session's command ended: %v", err)
			default:
			}
			if n := len(containers(t, h, config.Instance)); n != 2 {
				t.Errorf("%d containers", n)
			}
		})
	}
}

// A container that somebody pauses holds no call up for longer than its time-out and the ladder take.
func TestContainerPaused(t *testing.T) {
	h := sandboxtest.Engine(t)
	for _, c := range []struct {
		name   string
		within time.Duration
		call   func(s *sandbox.Session) error
	}{
		{"exec", 20 * time.Second, func(s *sandbox.Session) error {
			_, err := s.Exec(t.Context(), machine.Command{Script: "true", Timeout: time.Second})
			if !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), "somebody has paused its container") {
				return fmt.Errorf("got %w", err)
			}
			return nil
		}},
		{"start", 20 * time.Second, func(s *sandbox.Session) error {
			_, err := s.Start(t.Context(), machine.Command{Script: "sleep 100"})
			if !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), "somebody has paused its container") {
				return fmt.Errorf("got %w", err)
			}
			return nil
		}},
		{"write", time.Minute, func(s *sandbox.Session) error {
			err := s.WriteFile(t.Context(), "large", make([]byte, 4<<20), 0)
			if !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), "somebody has paused its container") {
				return fmt.Errorf("got %w", err)
			}
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, config := h.Manager(t)
			s := get(t, m, "s", config.Spec)
			other := get(t, m, "other", config.Spec)
			shell(t, s, "echo kept > f")
			id := containersOf(t, h, config.Instance, "s")[0].ID
			if err := h.API.ContainerPause(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := c.call(s); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > c.within+slack {
				t.Errorf("took %v", took)
			}
			shell(t, other, "true")
			if got := shell(t, s, "cat f"); got != "kept\n" {
				t.Errorf("afterwards: %q", got)
			}
			if left := containersOf(t, h, config.Instance, "s"); len(left) != 1 || left[0].ID == id {
				t.Errorf("containers afterwards: %+v", left)
			}
		})
	}
}

// Warm containers that somebody pauses serve nobody: a session and a program get other ones, at once.
func TestWarmContainersPaused(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, keepWarm(2))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Run(ctx) }()
	awaitReady(t, m, 2)
	cancel() // none is made any more
	<-ended
	paused := map[string]bool{}
	for _, c := range containers(t, h, config.Instance) {
		if err := h.API.ContainerPause(t.Context(), c.ID); err != nil {
			t.Fatal(err)
		}
		paused[c.ID] = true
	}
	s := get(t, m, "s", config.Spec)
	r, err := s.Exec(t.Context(), machine.Command{Script: "echo here", Timeout: time.Minute})
	if err != nil || string(r.Stdout) != "here\n" {
		t.Errorf("result %+v, %v", r, err)
	}
	if of := containersOf(t, h, config.Instance, "s"); len(of) != 1 || paused[of[0].ID] {
		t.Errorf("the session has %+v of %v", of, paused)
	}
	eventually(t, "the paused ones are gone", func() bool { return len(containers(t, h, config.Instance)) == 1 })
}

func containersOf(t *testing.T, h sandboxtest.Host, instance string, session message.WorkspaceKey) []driver.Owned {
	t.Helper()
	var of []driver.Owned
	for _, c := range containers(t, h, instance) {
		if message.WorkspaceKey(c.Labels[driver.LabelSession]) == session {
			of = append(of, c)
		}
	}
	return of
}
