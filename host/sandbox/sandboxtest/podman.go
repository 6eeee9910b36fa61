package sandboxtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/sdk/need"
)

// likeRunc is runc without a limit that Podman sets for root, and that root of a container may not set.
const likeRunc = `#!/bin/sh
bundle=
before=
for word; do
	[ "$before" = --bundle ] && bundle=$word
	before=$word
done
[ -n "$bundle" ] && sed -i -E 's/,\{"type":"RLIMIT_NPROC"[^}]*\}//; s/\{"type":"RLIMIT_NPROC"[^}]*\},?//' "$bundle/config.json"
exec runc "$@"
`

// Podman starts a Podman that ends with the test, and loads Image. If that does not work here the test is skipped or fails; see need.Part.
func Podman(t testing.TB) Host {
	t.Helper()
	for _, program := range []string{"podman", "runc"} {
		_, err := exec.LookPath(program)
		need.Part(t, "podman", err)
	}
	if os.Getuid() != 0 {
		need.Part(t, "podman", errors.New("only root starts the test's Podman"))
	}
	dir, err := os.MkdirTemp("", "flynn-podman-")
	if err != nil {
		t.Fatal(err)
	}
	runtime, socket := filepath.Join(dir, "runc"), filepath.Join(dir, "podman.sock")
	if err := os.WriteFile(runtime, []byte(likeRunc), 0o755); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("podman", "--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "--runtime", runtime,
		"--cgroup-manager", "cgroupfs", "--events-backend", "file", "system", "service", "--time=0", "unix://"+socket)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	cmd.Dir = dir // where conmon writes a file when a container runs out of memory
	cmd.Stdout, cmd.Stderr = log, log
	need.Part(t, "podman", cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if said, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("Podman said:\n%s", said)
		}
		_ = exec.Command("umount", filepath.Join(dir, "root", "overlay")).Run()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	need.Part(t, "podman", answers(t, "unix://"+socket))
	h := connect(t, "unix://"+socket)
	need.Part(t, "podman", importImage(t.Context(), h.API, Image, BusyboxRoot))
	return h
}

// answers waits until an engine that was started answers.
func answers(t testing.TB, address string) error {
	d, err := docker.New(docker.Config{Engine: address})
	if err != nil {
		return err
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if err = d.Ping(ctx); err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
