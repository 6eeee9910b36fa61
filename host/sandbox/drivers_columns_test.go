package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/fleet/drivers"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/native"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

func onDocker(b *testing.B) column {
	h := sandboxtest.Engine(b)
	m, config := h.Manager(b, keepWarm(0))
	return managed(b, m, config, metered(h.Driver, config))
}

func onPodman(b *testing.B) column {
	h := sandboxtest.Podman(b)
	m, config := h.Manager(b, keepWarm(0))
	return managed(b, m, config, metered(h.Driver, config))
}

// onPlugin has the example's driver, which makes its sandboxes on the engine of the column "docker".
func onPlugin(b *testing.B) column {
	h := sandboxtest.Engine(b)
	dir, err := os.MkdirTemp("/tmp", "fb") // short, because sockets are below it
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	c := &config.Config{
		Sandbox: config.Sandbox{Engine: "driver:box"}, Drivers: map[string]config.Driver{"box": {Plugin: "docker-driver"}},
		Plugins: config.Plugins{Dir: filepath.Join(dir, "plugins"), DevPaths: map[string]string{"docker-driver": sandboxtest.DockerDriver(b)}},
	}
	c.Store.Dir = dir
	log := slog.New(slog.DiscardHandler)
	alone, err := drivers.Start(c, nil, log)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := alone.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := alone.Ping(b.Context()); err != nil {
		b.Fatal(err)
	}
	m, config := h.Manager(b, keepWarm(0), func(c *sandbox.Config) {
		c.Driver, c.Log = alone.Untested(), log
		if c.Supervisor, err = program.FindSupervisorFor(c.Driver, log); err != nil {
			b.Fatal(err)
		}
	})
	return managed(b, m, config, metered(h.Driver, config))
}

func onNative(b *testing.B) column {
	dir, log := b.TempDir(), slog.New(slog.DiscardHandler)
	supervisor := func() (string, error) { return program.FindSupervisor(log) }
	d, err := native.New(native.Config{Folder: filepath.Join(dir, "native"), Supervisor: supervisor})
	if err == nil {
		err = d.Ping(b.Context())
	}
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { d.Close() })
	path, err := supervisor()
	if err != nil {
		b.Fatal(err)
	}
	s := sandboxtest.Spec()
	s.BestEffort = true
	config := sandbox.Config{Driver: d, Instance: "bench-native", WorkspaceRoot: filepath.Join(dir, "workspaces"), Supervisor: path, Spec: s, Log: log}
	keepWarm(0)(&config)
	m, err := sandbox.New(config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.DestroyAll(context.Background()) })
	return managed(b, m, config, supervisorsMemory)
}

// managed is the column of a driver, whose manager keeps no pool until a figure asks for one.
func managed(b *testing.B, m *sandbox.Manager, c sandbox.Config, idle func(context.Context) (uint64, error)) column {
	runManager(b, m)
	warm := func(do func(ctx context.Context, n int, s *sandbox.Session) error) func(context.Context, int) (time.Duration, error) {
		return func(ctx context.Context, n int) (time.Duration, error) {
			sessions := make([]*sandbox.Session, n)
			err := together(n, func(i int) (err error) {
				sessions[i], err = m.Get(ctx, message.WorkspaceKey(fmt.Sprint("warm ", i)), "default", c.Spec)
				return err
			})
			if err != nil {
				return 0, err
			}
			return timed(n, func(i int) error { return do(ctx, n, sessions[i]) })
		}
	}
	cold := func(i int) message.WorkspaceKey { return message.WorkspaceKey(fmt.Sprint("cold ", i)) }
	firsts := func(ctx context.Context, n int) (time.Duration, error) {
		took, err := timed(n, func(i int) error { return first(ctx, m, cold(i), c.Spec) })
		m.SetPools(nil, 100)
		return took, errors.Join(err, together(n, func(i int) error { return m.Destroy(ctx, cold(i)) }))
	}
	return column{idle: idle, config: &c, figures: map[string]func(context.Context, int) (time.Duration, error){
		figureWarm:  warm(func(ctx context.Context, _ int, s *sandbox.Session) error { return execHello(ctx, s) }),
		figureFirst: firsts,
		figurePool: func(ctx context.Context, n int) (time.Duration, error) {
			m.SetPools([]sandbox.Pool{{Spec: c.Spec, Size: n}}, 100)
			awaitReady(b, m, n)
			return firsts(ctx, n)
		},
		figureWrite: warm(func(ctx context.Context, _ int, s *sandbox.Session) error {
			return s.WriteFile(ctx, "f", make([]byte, 1<<20), 0)
		}),
		figureOutput: warm(func(ctx context.Context, n int, s *sandbox.Session) error {
			r, err := s.Exec(ctx, machine.Command{Script: zeroes(n)})
			return errors.Join(err, complete(int64(len(r.Stdout))+r.Dropped, n))
		}),
		figureAbort: warm(func(ctx context.Context, _ int, s *sandbox.Session) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			running, err := s.Spawn(ctx, machine.Command{Script: endless})
			if err != nil {
				return err
			}
			defer running.Close()
			if _, err := running.Stdout.Read(make([]byte, 1)); err != nil {
				return err
			}
			cancel()
			_, err = running.Wait(context.WithoutCancel(ctx))
			return err
		}),
	}}
}

func onHost(b *testing.B) column {
	run := programs(b.TempDir(), sandboxtest.Busybox, "sh", "-c")
	return launched(run, false, run.hello)
}

func bubblewrap(b *testing.B) column {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		b.Skip(err)
	}
	run := programs("/", path, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp",
		sandboxtest.Busybox, "sh", "-c")
	return launched(run, true, run.hello)
}

// dockerAlone is the engine's own way, without Flynn. All sessions use one container.
func dockerAlone(b *testing.B) column {
	h := sandboxtest.Engine(b)
	id, err := dockerSleeper(b.Context(), h)
	if id != "" {
		b.Cleanup(func() { _ = h.Driver.Remove(context.Background(), id) })
	}
	if err != nil {
		b.Fatal(err)
	}
	c := launched(dockerRunner(h, id), false, func(ctx context.Context) error { return dockerWhole(ctx, h) })
	c.idle = func(ctx context.Context) (uint64, error) {
		u, err := h.Driver.Usage(ctx, id)
		return uint64(u.Memory), err
	}
	return c
}
