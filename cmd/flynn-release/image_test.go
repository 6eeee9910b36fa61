package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
	"go.yaml.in/yaml/v3"

	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// engine is the Docker engine of the tests, with what they do with it.
type engine struct {
	t   *testing.T
	ctx context.Context
	api *client.Client
}

func (e engine) check(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// load loads an image, which goes when the test ends, and returns its name.
func (e engine) load(file string) string {
	e.t.Helper()
	f, err := os.Open(file)
	e.check(err)
	defer f.Close()
	loaded, err := e.api.ImageLoad(e.ctx, f)
	e.check(err)
	defer loaded.Body.Close()
	said, err := io.ReadAll(loaded.Body)
	e.check(err)
	const name = "flynn:1.2.3"
	if !strings.Contains(string(said), name) {
		e.t.Fatalf("the engine said %s", said)
	}
	e.t.Cleanup(func() {
		for _, tag := range []string{name, "flynn:latest"} {
			_, _ = e.api.ImageRemove(context.Background(), tag, image.RemoveOptions{Force: true})
		}
	})
	return name
}

// composed are the limits of examples/docker/compose.yaml.
type composed struct {
	Services map[string]struct {
		Image       string
		ReadOnly    bool     `yaml:"read_only"`
		CapDrop     []string `yaml:"cap_drop"`
		SecurityOpt []string `yaml:"security_opt"`
		Tmpfs       []string
	}
}

// start starts a container with the limits of compose.yaml, but without a network, and with short intervals of its health check. binds are
// those of the store and further ones, and group is one that the user is in as well.
func (e engine) start(name, config string, binds []string, group string) (id string) {
	e.t.Helper()
	var c composed
	e.check(yaml.Unmarshal([]byte(read(e.t, "../../examples/docker/compose.yaml")), &c))
	limits := c.Services["flynn"]
	if limits.Image != "flynn" || !limits.ReadOnly || len(limits.Tmpfs) != 1 {
		e.t.Fatalf("compose.yaml has %+v", limits)
	}
	made, err := e.api.ContainerCreate(e.ctx, &container.Config{
		Image: name, Env: []string{hookSecret},
		Healthcheck: &container.HealthConfig{Interval: time.Second, StartPeriod: time.Minute},
	}, &container.HostConfig{
		NetworkMode: "none", ReadonlyRootfs: limits.ReadOnly, CapDrop: limits.CapDrop, SecurityOpt: limits.SecurityOpt,
		Tmpfs: map[string]string{limits.Tmpfs[0]: ""}, Binds: append(binds, config+":/etc/flynn/flynn.toml:ro"), GroupAdd: []string{group},
	}, nil, nil, "")
	e.check(err)
	e.t.Cleanup(func() {
		_ = e.api.ContainerStop(context.Background(), made.ID, container.StopOptions{})
		if err := e.api.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			e.t.Error(err)
		}
	})
	e.check(e.api.ContainerStart(e.ctx, made.ID, container.StartOptions{}))
	return made.ID
}

// awaitHealthy waits for the health check to succeed.
func (e engine) awaitHealthy(id string) {
	e.t.Helper()
	for {
		about, err := e.api.ContainerInspect(e.ctx, id)
		e.check(err)
		switch {
		case !about.State.Running:
			logs, err := e.api.ContainerLogs(e.ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true})
			e.check(err)
			var said bytes.Buffer
			_, _ = stdcopy.StdCopy(&said, &said, logs)
			e.t.Fatalf("the container has ended:\n%s", said.String())
		case about.State.Health != nil && about.State.Health.Status == container.Healthy:
			return
		}
		select {
		case <-e.ctx.Done():
			e.t.Fatalf("not healthy: %+v", about.State.Health)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// run runs a program in a container, and returns what it prints.
func (e engine) run(id, stdin string, args ...string) string {
	e.t.Helper()
	made, err := e.api.ContainerExecCreate(e.ctx, id, container.ExecOptions{Cmd: args, AttachStdin: true, AttachStdout: true, AttachStderr: true})
	e.check(err)
	stream, err := e.api.ContainerExecAttach(e.ctx, made.ID, container.ExecAttachOptions{})
	e.check(err)
	defer stream.Close()
	_, err = io.WriteString(stream.Conn, stdin)
	e.check(err)
	e.check(stream.CloseWrite())
	var out bytes.Buffer
	_, err = stdcopy.StdCopy(&out, &out, stream.Reader)
	e.check(err)
	ended, err := e.api.ContainerExecInspect(e.ctx, made.ID)
	e.check(err)
	if ended.ExitCode != 0 {
		e.t.Fatalf("%v: exit code %d\n%s", args, ended.ExitCode, out.String())
	}
	return out.String()
}

// config writes a configuration that every user can read.
func (e engine) config(text string) (path string) {
	path = filepath.Join(e.t.TempDir(), "flynn.toml")
	write(e.t, path, text)
	e.check(os.Chmod(path, 0o644))
	return path
}

// imageInEngine loads the image of the release.
func imageInEngine(t *testing.T) (e engine, name string) {
	archive := file(t, made(t), "image-*.tar.gz")
	ctx, cancel := context.WithTimeout(t.Context(), cmdTimeout)
	t.Cleanup(cancel)
	e = engine{t, ctx, sandboxtest.Engine(t).API}
	return e, e.load(archive)
}

// The image runs as a user without rights, with a root that it cannot change, becomes healthy and answers; what it was told outlasts the
// container's process.
func TestImage(t *testing.T) {
	e, name := imageInEngine(t)
	about, err := e.api.ImageInspect(e.ctx, name)
	e.check(err)
	if user := about.Config.User; user != "65532:65532" || len(about.RootFS.Layers) != 1 {
		t.Errorf("the image runs as %q, and has %d layers", user, len(about.RootFS.Layers))
	}

	config := e.config(read(t, "../../examples/docker/flynn.toml") + withParts + withHooks)
	volume := "flynn-release-test-" + time.Now().Format("150405.000000")
	t.Cleanup(func() { e.check(e.api.VolumeRemove(context.Background(), volume, true)) })
	id := e.start(name, config, []string{volume + ":/var/lib/flynn"}, "65532")
	e.awaitHealthy(id)
	answers(t, e.run(id, "hello\n", "flynn", "chat"))
	partsRun(t, func(args ...string) string { return e.run(id, "", append([]string{"flynn"}, args...)...) })
	e.check(e.api.ContainerRestart(e.ctx, id, container.StopOptions{}))
	e.awaitHealthy(id)
	if sessions := e.run(id, "", "flynn", "session", "list"); !strings.Contains(sessions, "terminal:") {
		t.Errorf("after a restart, flynn session list printed\n%s", sessions)
	}
}

// A container with the engine's socket, and with the store at the same path inside and outside, runs tools in sandboxes of that engine.
func TestImageWithSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give a folder to the user of the image")
	}
	e, name := imageInEngine(t)
	socket, ok := strings.CutPrefix(e.api.DaemonHost(), "unix://")
	if !ok {
		t.Skipf("%s is not on this machine", e.api.DaemonHost())
	}
	about, err := os.Stat(socket)
	e.check(err)
	store, err := os.MkdirTemp("", "flynn-release-store-*") // not t.TempDir, whose parent only root may enter
	e.check(err)
	t.Cleanup(func() { e.check(os.RemoveAll(store)) })
	e.check(os.Chown(store, imageUser, imageUser))

	text := strings.NewReplacer("/var/lib/flynn", store, "debian:stable-slim", sandboxtest.Image).Replace(read(t, "../../examples/docker/flynn.toml"))
	group := strconv.Itoa(int(about.Sys().(*syscall.Stat_t).Gid))
	id := e.start(name, e.config(text), []string{socket + ":/var/run/docker.sock", store + ":" + store}, group)
	e.awaitHealthy(id)
	if out := e.run(id, "!sh echo I am $(id -u) in $(hostname)\n", "flynn", "chat"); !strings.Contains(out, "I am 65532 in sandbox") {
		t.Errorf("flynn chat printed\n%s", out)
	}
}
