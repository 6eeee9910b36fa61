package sandbox_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// containers lists what an instance has on the engine. The engine lists a container for a moment after it has answered that there is none
// of that id: such a one is left out.
func containers(t testing.TB, h sandboxtest.Host, instance string) []driver.Owned {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	owned, err := h.Driver.List(ctx, instance)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(owned, func(o driver.Owned) bool {
		_, err := h.API.ContainerInspect(ctx, o.ID)
		return cerrdefs.IsNotFound(err)
	})
}

// eventually waits for something that the engine does in its own time.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func TestOneContainerPerSession(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := m.Get(t.Context(), "chat:1", "default", config.Spec)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := s.Exec(t.Context(), machine.Command{Script: "true"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(containers(t, h, config.Instance)); n != 1 {
		t.Errorf("%d containers for one session", n)
	}
	get(t, m, "chat:2", config.Spec)
	owned := containers(t, h, config.Instance)
	if len(owned) != 2 {
		t.Errorf("%d containers for two sessions", len(owned))
	}
	for _, c := range owned {
		for _, label := range []string{driver.LabelInstance, driver.LabelSession, driver.LabelSandbox, driver.LabelSpec, driver.LabelKey, driver.LabelExpires} {
			if c.Labels[label] == "" {
				t.Errorf("container %s has no label %s", c.Name, label)
			}
		}
	}
}

func TestSessionsAreApart(t *testing.T) {
	m, config := sandboxtest.Engine(t).Manager(t)
	a, b := get(t, m, "a/../b", config.Spec), get(t, m, "a-..-b", config.Spec)
	shell(t, a, "echo secret > f; echo secret > /tmp/f")
	if got := shell(t, b, "ls; ls /tmp"); got != "" {
		t.Errorf("second session sees %q", got)
	}
}

func TestChangedSpecReplacesTheContainer(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	old := get(t, m, "s", config.Spec)
	shell(t, old, "echo kept > f")
	changed := config.Spec
	changed.MemoryBytes *= 2
	s := get(t, m, "s", changed)
	if got := shell(t, s, "cat f"); got != "kept\n" {
		t.Errorf("workspace: %q", got)
	}
	if n := len(containers(t, h, config.Instance)); n != 1 {
		t.Errorf("%d containers", n)
	}
	if _, err := old.Exec(t.Context(), machine.Command{Script: "true"}); !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("the old session still answers: %v", err)
	}
}

func TestContainerKilledBehindOurBack(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	s := get(t, m, "s", config.Spec)
	for _, how := range []string{"kill", "remove"} {
		t.Run(how, func(t *testing.T) {
			shell(t, s, "echo "+how+" > f")
			if _, err := s.Start(t.Context(), machine.Command{Script: "sleep 100"}); err != nil {
				t.Fatal(err)
			}
			id := containers(t, h, config.Instance)[0].ID
			started := make(chan struct{}, 1)
			failed := make(chan error, 1)
			go func() {
				_, err := s.Exec(t.Context(), machine.Command{Script: "echo started; sleep 100", Progress: func(machine.Stream, []byte) { started <- struct{}{} }})
				failed <- err
			}()
			<-started
			var err error
			if how == "kill" {
				err = h.API.ContainerKill(t.Context(), id, "KILL")
			} else {
				err = h.API.ContainerRemove(t.Context(), id, container.RemoveOptions{Force: true})
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := <-failed; !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), "container ended") {
				t.Errorf("running command got %v", err)
			}
			if got := shell(t, s, "cat f"); got != how+"\n" {
				t.Errorf("workspace afterwards: %q", got)
			}
			if p, err := s.Processes(t.Context()); err != nil || len(p) != 0 {
				t.Errorf("background processes of the dead container: %+v (%v)", p, err)
			}
			if owned := containers(t, h, config.Instance); len(owned) != 1 || owned[0].ID == id {
				t.Errorf("containers afterwards: %+v", owned)
			}
		})
	}
}

func TestDestroy(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	s, other := get(t, m, "s", config.Spec), get(t, m, "other", config.Spec)
	shell(t, s, "echo kept > f")
	if err := m.Destroy(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if n := len(containers(t, h, config.Instance)); n != 1 {
		t.Errorf("%d containers left", n)
	}
	shell(t, other, "true")
	if got := shell(t, get(t, m, "s", config.Spec), "cat f"); got != "kept\n" {
		t.Errorf("workspace: %q", got)
	}
	if err := m.DestroyAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(containers(t, h, config.Instance)); n != 0 {
		t.Errorf("%d containers left", n)
	}
	if _, err := m.Get(t.Context(), "s", "default", config.Spec); !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("closed manager: %v", err)
	}
}

func TestReconcileTouchesOwnLeftoversOnly(t *testing.T) {
	h := sandboxtest.Engine(t)
	ours, config := h.Manager(t)
	theirs, theirConfig := h.Manager(t)
	s := get(t, theirs, "s", theirConfig.Spec)
	// A leftover: created for us by a host that died before it started it.
	id, err := h.Driver.Create(t.Context(), driver.Container{
		Key: "k", Name: "flynn-leftover-" + config.Instance, Image: sandboxtest.Image, Entrypoint: []string{"/bin/true"},
		Labels: map[string]string{driver.LabelInstance: config.Instance, driver.LabelKey: "k"}, Network: "none", MemoryBytes: 64 << 20, CPUs: 1, PidsLimit: 16,
	})
	if err != nil {
		t.Fatal(err)
	}
	if owned := containers(t, h, config.Instance); len(owned) != 1 || owned[0].ID != id {
		t.Fatalf("leftovers: %+v", owned)
	}
	if err := ours.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(containers(t, h, config.Instance)); n != 0 {
		t.Errorf("%d leftovers", n)
	}
	shell(t, s, "true")
	if n := len(containers(t, h, theirConfig.Instance)); n != 1 {
		t.Errorf("the other instance has %d containers", n)
	}
}

func TestCreateIsIdempotent(t *testing.T) {
	h := sandboxtest.Engine(t)
	config := h.Config(t)
	c := driver.Container{
		Key: "key", Name: "flynn-twice-" + config.Instance, Image: sandboxtest.Image, Entrypoint: []string{"/bin/true"},
		Labels: map[string]string{driver.LabelInstance: config.Instance, driver.LabelKey: "key"}, Network: "none", MemoryBytes: 64 << 20, CPUs: 1, PidsLimit: 16,
	}
	first, err := h.Driver.Create(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := h.Driver.Create(t.Context(), c); err != nil || second != first {
		t.Errorf("second create: %s (%v), want %s", second, err, first)
	}
	c.Key = "another"
	if id, err := h.Driver.Create(t.Context(), c); err == nil {
		t.Errorf("a stranger's key got %s", id)
	}
	for range 2 {
		if err := h.Driver.Remove(t.Context(), first); err != nil {
			t.Error(err)
		}
	}
}

func TestIdleContainersEnd(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, func(c *sandbox.Config) { c.IdleAfter = 200 * time.Millisecond })
	s := get(t, m, "s", config.Spec)
	shell(t, s, "echo kept > f")
	busy := get(t, m, "busy", config.Spec)
	p, err := busy.Start(t.Context(), machine.Command{Script: "sleep 100"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	eventually(t, "one container is left", func() bool { return len(containers(t, h, config.Instance)) == 1 })
	if p := process(t, busy, p.ID); !p.Running {
		t.Error("a container with a running process was ended")
	}
	if got := shell(t, s, "cat f"); got != "kept\n" {
		t.Errorf("workspace: %q", got)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("run ended with %v", err)
	}
}

func TestEngineMissing(t *testing.T) {
	address := "unix://" + filepath.Join(t.TempDir(), "no.sock")
	driver, err := docker.New(docker.Config{Engine: address})
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	m, err := sandbox.New(sandbox.Config{Driver: driver, Instance: "i", WorkspaceRoot: t.TempDir(), Supervisor: sandboxtest.Supervisor(t)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Get(t.Context(), "s", "default", spec.Spec{Image: "x"})
	for _, e := range []error{err, driver.Ping(t.Context()), m.Reconcile(t.Context())} {
		if !errors.Is(e, machine.ErrUnavailable) || !strings.Contains(e.Error(), address) || !strings.Contains(e.Error(), "start Docker") {
			t.Errorf("error does not help: %v", e)
		}
		if e != nil && strings.Count(e.Error(), address) > 1 {
			t.Errorf("the error repeats itself: %v", e)
		}
	}
}

func TestImageMissing(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	config.Spec.Image = "127.0.0.1:9/flynn/nosuch:1"
	_, err := m.Get(t.Context(), "s", "default", config.Spec)
	if !errors.Is(err, machine.ErrUnavailable) || !errors.Is(err, driver.ErrNoImage) {
		t.Errorf("wrong kind: %v", err)
	}
	for _, want := range []string{config.Spec.Image, "docker pull", os.Getenv("DOCKER_HOST")} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error does not name %q: %v", want, err)
		}
		if err != nil && strings.Count(err.Error(), ".sock") > 1 {
			t.Errorf("error repeats itself: %v", err)
		}
	}
}

func TestImageWithoutShell(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	var root bytes.Buffer
	w := tar.NewWriter(&root)
	for _, dir := range []string{"dev/", "proc/", "sys/", "tmp/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	config.Spec.Image = "flynn-test/bare:latest"
	body, err := h.API.ImageImport(t.Context(), image.ImportSource{Source: &root, SourceName: "-"}, config.Spec.Image, image.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		t.Fatal(err)
	}
	body.Close()
	t.Cleanup(func() {
		if err := m.DestroyAll(context.Background()); err != nil {
			t.Error(err)
		}
		_, _ = h.API.ImageRemove(context.Background(), config.Spec.Image, image.RemoveOptions{})
	})
	s := get(t, m, "s", config.Spec)
	if _, err := s.Exec(t.Context(), machine.Command{Script: "true"}); err == nil || !strings.Contains(err.Error(), "no /bin/sh") {
		t.Errorf("got %v", err)
	}
}

func TestSpecRefusals(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	for name, spoil := range map[string]func(*spec.Spec){
		"image":     func(s *spec.Spec) { s.Image = "" },
		"allowlist": func(s *spec.Spec) { s.Network = "allowlist" },
		"entry":     func(s *spec.Spec) { s.Network, s.Allowlist = "allowlist", []string{"example.com", "127.0.0.1"} },
		"network":   func(s *spec.Spec) { s.Network = "container:other" },
		"workspace": func(s *spec.Spec) { s.WorkspaceDir = "/" },
		"memory":    func(s *spec.Spec) { s.MemoryBytes = 1 << 20 },
		"pids":      func(s *spec.Spec) { s.PidsLimit = -1 },
		"cpu":       func(s *spec.Spec) { s.CPUs = -1 },
	} {
		spec := config.Spec
		spoil(&spec)
		if _, err := m.Get(t.Context(), "s", "default", spec); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := len(containers(t, h, config.Instance)); n != 0 {
		t.Errorf("%d containers made", n)
	}
}

func TestHostNetwork(t *testing.T) {
	m, config := sandboxtest.Engine(t).Manager(t)
	config.Spec.Network = "host"
	want, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	s := get(t, m, "s", config.Spec)
	if got := shell(t, s, "ls /sys/class/net | wc -l"); got != fmt.Sprintln(len(want)) {
		t.Errorf("%s interfaces, the host has %d", got, len(want))
	}
}

func TestCapabilities(t *testing.T) {
	h := sandboxtest.Engine(t)
	c, err := h.Driver.Capabilities(t.Context())
	if err != nil || !strings.HasPrefix(c.Engine, "Docker ") || !slices.Contains(c.Runtimes, "runc") {
		t.Errorf("got %+v (%v)", c, err)
	}
}
