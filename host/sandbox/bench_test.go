package sandbox_test

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// One run prints every path beside the others:
//
//	go test -run - -bench . -benchtime 40x ./host/sandbox

const hello = "echo hello"

// measure reports the median and the 95th percentile of op; prepare and tidy are not timed.
func measure(b *testing.B, prepare func(), op func(), tidy func()) {
	b.Helper()
	took := make([]time.Duration, 0, 1024)
	for b.Loop() {
		b.StopTimer()
		prepare()
		b.StartTimer()
		began := time.Now()
		op()
		took = append(took, time.Since(began))
		b.StopTimer()
		tidy()
		b.StartTimer()
	}
	slices.Sort(took)
	ms := func(q float64) float64 {
		return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(ms(0.5), "p50-ms")
	b.ReportMetric(ms(0.95), "p95-ms")
	b.ReportMetric(0, "ns/op")
}

func nothing() {}

// BenchmarkCommand runs one trivial command, the same program on each path.
func BenchmarkCommand(b *testing.B) {
	h := sandboxtest.Engine(b)
	m, config := h.Manager(b)
	s := get(b, m, "bench", config.Spec)
	id := containers(b, h, config.Instance)[0].ID
	expect := func(out []byte, err error) {
		if err != nil || string(out) != "hello\n" {
			b.Fatalf("printed %q (%v)", out, err)
		}
	}
	b.Run("host-fork-exec", func(b *testing.B) {
		measure(b, nothing, func() { expect(exec.Command(sandboxtest.Busybox, "sh", "-c", hello).Output()) }, nothing)
	})
	b.Run("sandbox-warm", func(b *testing.B) {
		measure(b, nothing, func() {
			r, err := s.Exec(b.Context(), machine.Command{Script: hello})
			expect(r.Stdout, err)
		}, nothing)
	})
	streams := config.Spec
	streams.Runtime = "runc" // named, so without a lane
	slow := get(b, m, "bench streams", streams)
	b.Run("sandbox-warm-without-lane", func(b *testing.B) {
		measure(b, nothing, func() {
			r, err := slow.Exec(b.Context(), machine.Command{Script: hello})
			expect(r.Stdout, err)
		}, nothing)
	})
	b.Run("docker-exec-api", func(b *testing.B) {
		measure(b, nothing, func() { expect(dockerExec(b.Context(), h, id)) }, nothing)
	})
	b.Run("docker-exec-cli", func(b *testing.B) {
		measure(b, nothing, func() { expect(exec.Command("docker", "exec", id, "/bin/sh", "-c", hello).Output()) }, nothing)
	})
}

// dockerExec is the engine's own way, without its command line program.
func dockerExec(ctx context.Context, h sandboxtest.Host, id string) ([]byte, error) {
	made, err := h.API.ContainerExecCreate(ctx, id, container.ExecOptions{
		Cmd: []string{"/bin/sh", "-c", hello}, AttachStdout: true, Tty: true,
	})
	if err != nil {
		return nil, err
	}
	stream, err := h.API.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{Tty: true})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	out, err := io.ReadAll(stream.Reader)
	if err == nil {
		_, err = h.API.ContainerExecInspect(ctx, made.ID)
	}
	return []byte(fmt.Sprintln(string(out[:min(len(out), 5)]))), err
}

// BenchmarkFirstCommand is a new session's first command, from asking for the session on.
func BenchmarkFirstCommand(b *testing.B) {
	h := sandboxtest.Engine(b)
	b.Run("docker-create-start-exec-remove", func(b *testing.B) {
		measure(b, nothing, func() {
			out, err := exec.Command("docker", "run", "--rm", "--network", "none", sandboxtest.Image, "/bin/sh", "-c", hello).Output()
			if err != nil || string(out) != "hello\n" {
				b.Fatalf("printed %q (%v)", out, err)
			}
		}, nothing)
	})
	b.Run("api-create-start-exec-remove", func(b *testing.B) {
		measure(b, nothing, func() { dockerWhole(b, h) }, nothing)
	})
	for name, pool := range map[string]int{"sandbox-cold": 0, "sandbox-from-pool": 2} {
		b.Run(name, func(b *testing.B) { firstCommand(b, h, pool) })
	}
}

func firstCommand(b *testing.B, h sandboxtest.Host, size int) {
	m, config := h.Manager(b, keepWarm(size))
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	n := 0
	measure(b, func() {
		n++
		eventually(b, "the pool is full", func() bool { return m.Stats().Pool.Ready == size })
	}, func() {
		s, err := m.Get(b.Context(), fmt.Sprint("session ", n), "default", config.Spec)
		if err != nil {
			b.Fatal(err)
		}
		if r, err := s.Exec(b.Context(), machine.Command{Script: hello}); err != nil || string(r.Stdout) != "hello\n" {
			b.Fatalf("printed %q (%v)", r.Stdout, err)
		}
	}, func() {
		if err := m.Destroy(b.Context(), fmt.Sprint("session ", n)); err != nil {
			b.Fatal(err)
		}
	})
	cancel()
	<-done
}

// dockerWhole makes a container, runs the command by the engine's exec and removes it.
func dockerWhole(b *testing.B, h sandboxtest.Host) {
	ctx := b.Context()
	made, err := h.API.ContainerCreate(ctx, &container.Config{Image: sandboxtest.Image, Entrypoint: []string{"sleep", "100"}},
		&container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		b.Fatal(err)
	}
	if err := h.API.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		b.Fatal(err)
	}
	if out, err := dockerExec(ctx, h, made.ID); err != nil || string(out) != "hello\n" {
		b.Fatalf("printed %q (%v)", out, err)
	}
	if err := h.API.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true}); err != nil {
		b.Fatal(err)
	}
}
