package sandbox_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// outputSize is what the commands of BenchmarkOutput write.
const outputSize = 1 << 30

// BenchmarkOutput has a command write a gibibyte: drained at the source beyond the cap, and carried whole. Beside it is the
// engine's own way, and what the same pipe takes on the host.
//
//	go test -run - -bench Output -benchtime 1x ./host/sandbox
func BenchmarkOutput(b *testing.B) {
	h := sandboxtest.Engine(b)
	m, config := h.Manager(b)
	s := get(b, m, "output", config.Spec)
	shell(b, s, "true")
	script := fmt.Sprintf("dd if=/dev/zero bs=1M count=%d 2>/dev/null", outputSize>>20)
	b.Run("drained", func(b *testing.B) {
		measureOutput(b, func() int64 {
			r := run(b, s, machine.Command{Script: script})
			return int64(len(r.Stdout)) + r.Dropped
		})
	})
	b.Run("drained-head-1k-writes", func(b *testing.B) {
		measureOutput(b, func() int64 {
			r := run(b, s, machine.Command{Script: fmt.Sprintf("head -c %d /dev/zero", outputSize)})
			return int64(len(r.Stdout)) + r.Dropped
		})
	})
	b.Run("whole", func(b *testing.B) {
		measureOutput(b, func() int64 {
			l, err := s.Spawn(b.Context(), machine.Command{Script: script})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			n, err := io.Copy(io.Discard, l.Stdout)
			if err != nil {
				b.Fatal(err)
			}
			return n
		})
	})
	b.Run("docker-exec-api", func(b *testing.B) {
		id := containers(b, h, config.Instance)[0].ID
		measureOutput(b, func() int64 { return dockerOutput(b, h, id, script) })
	})
}

// measureOutput reports the throughput of op, which returns how many bytes came, and how much the memory in use grew.
func measureOutput(b *testing.B, op func() int64) {
	b.Helper()
	var peak atomic.Uint64
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithCancel(b.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak.Store(max(peak.Load(), now.HeapInuse+now.StackInuse))
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	b.SetBytes(outputSize)
	for b.Loop() {
		if n := op(); n != outputSize {
			b.Fatalf("%d bytes came of %d", n, outputSize)
		}
	}
	cancel()
	<-watched
	growth := max(int64(peak.Load())-int64(before.HeapInuse+before.StackInuse), 0)
	b.ReportMetric(float64(growth)/(1<<20), "peak-MB")
	b.ReportMetric(0, "ns/op")
	if growth > 8<<20 {
		b.Errorf("the host's memory grew by %d bytes", growth)
	}
}

// dockerOutput runs a script by the engine's exec and counts what comes on its stream, which has pieces with a header each.
func dockerOutput(b *testing.B, h sandboxtest.Host, id, script string) int64 {
	b.Helper()
	ctx := b.Context()
	made, err := h.API.ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: []string{"/bin/sh", "-c", script}, AttachStdout: true})
	if err != nil {
		b.Fatal(err)
	}
	stream, err := h.API.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer stream.Close()
	n, err := stdcopy.StdCopy(io.Discard, io.Discard, stream.Reader)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
