// Package sandboxtest provides tests with a real Docker engine, a small image on it, and the supervisor built from this checkout. Start
// with Engine and Manager.
//
// It is for tests only, and every test that uses it needs an engine (see .ci/engine).
package sandboxtest

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/sdk/need"
)

// Image is a busybox image with all its applets, which Engine makes from the machine's static busybox.
const Image = "flynn-test/busybox:latest"

// Host is a real engine that has Image.
type Host struct {
	Driver *docker.Driver
	// API is for tests that bypass the driver.
	API *client.Client

	engine docker.Config // for further drivers of the same engine
}

// Engine returns the engine at DOCKER_HOST or the default socket. If there is none the test is skipped or fails; see need.Part.
func Engine(t testing.TB) Host {
	t.Helper()
	h := connect(t, "")
	need.Part(t, "docker", importImage(t.Context(), h.API, Image, BusyboxRoot))
	return h
}

// connect returns the engine at an address.
func connect(t testing.TB, address string) Host {
	t.Helper()
	h := Host{engine: docker.Config{Engine: address}}
	var err error
	if h.Driver, err = docker.New(h.engine); err == nil {
		err = h.Driver.Ping(t.Context())
	}
	need.Part(t, "docker", err)
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if address != "" {
		opts = append(opts, client.WithHost(address))
	}
	if h.API, err = client.NewClientWithOpts(opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Driver.Close(); h.API.Close() })
	return h
}

// importTimeout bounds the import of an image.
const importTimeout = time.Minute

// importImage creates an image unless the engine has it. Without other lines of a Dockerfile it gets a PATH and a variable.
func importImage(ctx context.Context, api *client.Client, tag string, makeRoot func() io.Reader, lines ...string) error {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	if _, err := api.ImageInspect(ctx, tag); err == nil {
		return nil
	}
	if lines == nil {
		lines = []string{"ENV PATH=/usr/sbin:/usr/bin:/sbin:/bin", "ENV IMAGE_SECRET=from-the-image"}
	}
	body, err := api.ImageImport(ctx, image.ImportSource{Source: makeRoot(), SourceName: "-"}, tag, image.ImportOptions{Changes: lines})
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(io.Discard, body)
	return err
}

// Supervisor returns the path of flynn-sandboxd, built from this checkout.
func Supervisor(t testing.TB) string {
	t.Helper()
	path, err := program.FindSupervisor(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Spec returns the specification of a small sandbox on Image.
func Spec() spec.Spec {
	return spec.Spec{Image: Image, MemoryBytes: 128 << 20, PidsLimit: 64, CPUs: 2, Timeout: 30 * time.Second}
}

// Config returns a complete configuration with an instance of its own, whose objects are removed from the engine when the test ends.
func (h Host) Config(t testing.TB) sandbox.Config {
	t.Helper()
	instance := "test-" + strings.ToLower(strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())) + "-" + time.Now().Format("150405.000000")
	t.Cleanup(func() { h.sweep(t, instance) })
	return sandbox.Config{
		Driver: h.Driver, Instance: instance, WorkspaceRoot: t.TempDir(),
		Spec: Spec(), Supervisor: Supervisor(t), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// Manager returns a Manager that is shut down with the test, and its configuration.
func (h Host) Manager(t testing.TB, adjust ...func(*sandbox.Config)) (*sandbox.Manager, sandbox.Config) {
	t.Helper()
	config := h.Config(t)
	for _, f := range adjust {
		f(&config)
	}
	m, err := sandbox.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.DestroyAll(ctx); err != nil {
			t.Errorf("shut down: %v", err)
		}
	})
	return m, config
}

// sweep fails the test if its instance still has containers, and removes them. The engine may list a container for a moment after it has
// reported it as gone.
func (h Host) sweep(t testing.TB, instance string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	engine, err := docker.New(h.engine) // that of the test may be closed
	if err != nil {
		t.Error(err)
		return
	}
	defer engine.Close()
	var owned []driver.Owned
	for late := time.Now().Add(listed); ; time.Sleep(listed / 50) {
		if owned, err = engine.List(ctx, instance); err != nil {
			t.Errorf("list leftovers: %v", err)
		}
		if len(owned) == 0 || time.Now().After(late) {
			break
		}
	}
	for _, c := range owned {
		t.Errorf("container %s (%s, %s) was left behind", c.ID, c.Name, c.State)
		_ = engine.Remove(ctx, c.ID)
	}
}

// GoroutinesEnd waits until the goroutines have ended that started after goleak.IgnoreCurrent returned since, and fails the test otherwise.
// Those of connections to an engine take some time.
func GoroutinesEnd(t testing.TB, since goleak.Option) {
	t.Helper()
	var left error
	for late := time.Now().Add(time.Minute); time.Now().Before(late); {
		if left = goleak.Find(since); left == nil {
			return
		}
	}
	t.Error(left)
}

// listed is how long the engine may list a container that is gone.
const listed = 5 * time.Second
