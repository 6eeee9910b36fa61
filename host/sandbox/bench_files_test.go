package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// quantiles reports the median and the 95th percentile of op.
func quantiles(b *testing.B, op func()) {
	b.Helper()
	var s side
	for b.Loop() {
		began := time.Now()
		op()
		s.took = append(s.took, time.Since(began))
	}
	slices.Sort(s.took)
	b.ReportMetric(s.quantile(0.5), "p50-ms")
	b.ReportMetric(s.quantile(0.95), "p95-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkWrite writes a file of 1 MiB: through the frames, straight to the host's disk, and the way that an engine has.
func BenchmarkWrite(b *testing.B) {
	h := sandboxtest.Engine(b)
	m, config := h.Manager(b)
	s := get(b, m, "bench", config.Spec)
	id := containers(b, h, config.Instance)[0].ID
	content, err := io.ReadAll(noise(1 << 20))
	if err != nil {
		b.Fatal(err)
	}
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("sandbox", func(b *testing.B) {
		quantiles(b, func() { check(s.WriteFile(b.Context(), "f", content, 0)) })
	})
	dir := b.TempDir()
	b.Run("host-disk", func(b *testing.B) {
		quantiles(b, func() { check(os.WriteFile(filepath.Join(dir, "f"), content, 0o600)) })
	})
	b.Run("docker-exec-api", func(b *testing.B) {
		quantiles(b, func() { check(dockerWrite(b.Context(), h, id, content)) })
	})
	b.StopTimer()
	if got, _, err := s.ReadFile(b.Context(), "f", 0, 2<<20); err != nil || !bytes.Equal(got, content) {
		b.Errorf("the file is not what was written (%v)", err)
	}
}

// dockerWrite feeds a shell in the container, and waits for its end.
func dockerWrite(ctx context.Context, h sandboxtest.Host, id string, content []byte) error {
	made, err := h.API.ContainerExecCreate(ctx, id, container.ExecOptions{
		Cmd: []string{"/bin/sh", "-c", "cat >/tmp/f"}, AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return err
	}
	stream, err := h.API.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer stream.Close()
	if _, err := stream.Conn.Write(content); err != nil {
		return err
	}
	if err := stream.CloseWrite(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, stream.Reader); err != nil {
		return err
	}
	state, err := h.API.ContainerExecInspect(ctx, made.ID)
	if err == nil && state.ExitCode != 0 {
		err = errors.New("cat failed")
	}
	return err
}

// BenchmarkRead reads a file of 64 MiB.
func BenchmarkRead(b *testing.B) {
	const size = 64 << 20
	h := sandboxtest.Engine(b)
	m, config := h.Manager(b)
	s := get(b, m, "bench", config.Spec)
	id := containers(b, h, config.Instance)[0].ID
	if err := s.Put(b.Context(), "f", noise(size), size, 0o644); err != nil {
		b.Fatal(err)
	}
	expect := func(n int64, err error) {
		if err != nil || n != size {
			b.Fatalf("read %d bytes (%v)", n, err)
		}
	}
	b.Run("sandbox-stream", func(b *testing.B) {
		quantiles(b, func() {
			r, _, err := s.Open(b.Context(), "f")
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			expect(io.Copy(io.Discard, r))
		})
	})
	b.Run("sandbox-at-once", func(b *testing.B) {
		quantiles(b, func() {
			p, _, err := s.ReadFile(b.Context(), "f", 0, size)
			expect(int64(len(p)), err)
		})
	})
	b.Run("docker-exec-api", func(b *testing.B) {
		quantiles(b, func() {
			ran, err := h.Driver.Run(b.Context(), id, docker.Run{Argv: []string{"cat", "/workspace/f"}, User: "1000:1000"})
			expect(int64(len(ran.Stdout)), err)
		})
	})
}
