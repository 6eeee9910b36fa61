package sandbox_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// measure runs op b.N times and reports the median and the 95th percentile.
func measure(b *testing.B, op func()) {
	b.Helper()
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		began := time.Now()
		op()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	ms := func(q float64) float64 {
		return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(ms(0.5), "p50-ms")
	b.ReportMetric(ms(0.95), "p95-ms")
}

// BenchmarkCommand runs one trivial command, the same program on each path.
func BenchmarkCommand(b *testing.B) {
	b.Run("host", func(b *testing.B) {
		measure(b, func() {
			if _, err := exec.Command(sandboxtest.Busybox, "sh", "-c", "echo hello").Output(); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("sandbox", func(b *testing.B) {
		s := open(b)
		measure(b, func() {
			if r, err := s.Exec(b.Context(), machine.Command{Script: "echo hello"}); err != nil || string(r.Stdout) != "hello\n" {
				b.Fatal(r, err)
			}
		})
	})
}
