package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// meddled is a driver with whom somebody meddles with a container, once, just before one of the steps of its making.
type meddled struct {
	*docker.Driver
	step   string
	meddle func(id string) error
	once   sync.Once
	err    error
}

func (m *meddled) before(step, id string) {
	if step == m.step {
		m.once.Do(func() { m.err = m.meddle(id) })
	}
}

func (m *meddled) Attach(ctx context.Context, id string, stderr io.Writer) (driver.Stream, error) {
	m.before("attach", id)
	return m.Driver.Attach(ctx, id, stderr)
}

func (m *meddled) Start(ctx context.Context, id string) error {
	m.before("start", id)
	err := m.Driver.Start(ctx, id)
	m.before("greet", id)
	return err
}

func (m *meddled) Remove(ctx context.Context, id string) error {
	m.before("remove", id)
	return m.Driver.Remove(ctx, id)
}

// If somebody meddles with a container while it is made or removed, the session still has its workspace and one container, at the
// latest in a second attempt, and nothing is left.
func TestContainerMeddledWithAtEveryStep(t *testing.T) {
	h := sandboxtest.Engine(t)
	ctx := context.Background()
	for name, meddle := range map[string]func(id string) error{
		"removed": func(id string) error {
			return h.API.ContainerRemove(ctx, id, container.RemoveOptions{Force: true})
		},
		"killed": func(id string) error {
			_ = h.API.ContainerKill(ctx, id, "KILL") // where it runs
			return nil
		},
		"started": func(id string) error { return h.API.ContainerStart(ctx, id, container.StartOptions{}) },
		"renamed": func(id string) error { return h.API.ContainerRename(ctx, id, "renamed-"+id[:12]) },
		"paused": func(id string) error {
			_ = h.API.ContainerPause(ctx, id) // where it runs
			return nil
		},
	} {
		for _, step := range []string{"attach", "start", "greet", "remove"} {
			if name == "paused" && step != "remove" {
				continue // it does not run yet, or see TestContainerPaused
			}
			t.Run(name+" before "+step, func(t *testing.T) {
				t.Parallel()
				d := &meddled{Driver: h.Driver, step: step, meddle: meddle}
				m, config := h.Manager(t, func(c *sandbox.Config) { c.Driver = d })
				look(t, m)
				began := time.Now()
				s, err := m.Get(t.Context(), "s", "default", config.Spec)
				if err != nil && (!errors.Is(err, machine.ErrUnavailable) || time.Since(began) > time.Minute) {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				if err != nil {
					s = get(t, m, "s", config.Spec)
				}
				shell(t, s, "echo kept > f")
				if err := s.Close(); err != nil {
					t.Logf("close: %v", err)
				}
				if got := shell(t, get(t, m, "s", config.Spec), "cat f"); got != "kept\n" {
					t.Errorf("afterwards: %q", got)
				}
				if d.err != nil {
					t.Logf("meddling: %v", d.err)
				}
				eventually(t, "there is one container", func() bool { return len(containers(t, h, config.Instance)) == 1 })
			})
		}
	}
}

// holdingOn is a driver that does not let go of the first containers that images are made in.
type holdingOn struct {
	*docker.Driver
	refusals atomic.Int32
}

func (d *holdingOn) Remove(ctx context.Context, id string) error {
	if strings.HasPrefix(id, "flynn-image-") && d.refusals.Add(1) == 1 {
		return fmt.Errorf("%w: too slow", machine.ErrUnavailable)
	}
	return d.Driver.Remove(ctx, id)
}

// The container in which an image was to be made is removed once the engine lets go of it, in the life of this process.
func TestContainerOfAnImageIsNotKept(t *testing.T) {
	h := sandboxtest.Engine(t)
	d := &holdingOn{Driver: h.Driver}
	m, config := h.Manager(t, func(c *sandbox.Config) { c.Driver = d })
	look(t, m)
	spec := config.Spec
	spec.Packages, spec.BuildNetwork = []string{"git"}, "none"
	if _, err := m.Images().Prepare(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "neither apt-get nor apk") {
		t.Errorf("got %v", err)
	}
	if d.refusals.Load() == 0 {
		t.Error("nothing was refused")
	}
	eventually(t, "the container is gone", func() bool { return len(containers(t, h, config.Instance)) == 0 })
}

// A way to the engine that breaks again and again, in the middle of whatever is said: what fails is typed, and nothing is left
// once the way is whole.
func TestWayToTheEngineBreaks(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	w := wayTo(t, strings.TrimPrefix(h.API.DaemonHost(), "unix://"))
	driver, err := docker.New(docker.Config{Engine: w.address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { driver.Close() })
	m, config := h.Manager(t, func(c *sandbox.Config) { c.Driver = driver })
	look(t, m)
	shell(t, get(t, m, "s", config.Spec), "echo kept > f")
	w.breaks.Store(true)
	var all sync.WaitGroup
	var worked, failed atomic.Int32
	for i := range 4 {
		all.Go(func() {
			for round := range 6 {
				session := message.WorkspaceKey(fmt.Sprint("s", i, "-", round))
				s, err := m.Get(t.Context(), session, "default", config.Spec)
				if err == nil {
					_, err = s.Exec(t.Context(), machine.Command{Script: "true"})
				}
				err = errors.Join(err, m.Destroy(t.Context(), session))
				switch {
				case err == nil:
					worked.Add(1)
				case errors.Is(err, machine.ErrUnavailable):
					failed.Add(1)
				default:
					t.Errorf("%s: %v", session, err)
				}
			}
		})
	}
	all.Wait()
	w.mend()
	t.Logf("%d worked, %d failed", worked.Load(), failed.Load())
	if failed.Load() == 0 {
		t.Error("nothing broke")
	}
	if got := shell(t, get(t, m, "s", config.Spec), "cat f"); got != "kept\n" {
		t.Errorf("afterwards: %q", got)
	}
	eventually(t, "there is one container", func() bool { return len(containers(t, h, config.Instance)) == 1 })
}
