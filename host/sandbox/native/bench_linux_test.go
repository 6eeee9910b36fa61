package native_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// BenchmarkNative compares the first command of a session without a pool, and a further one, with a process of the host that runs the same
// shell, and the first one with bubblewrap, where it is installed, which makes the same namespaces for that shell. A first command is that of a session which begins when there is a spare process again, one at once that of a session which begins right after
// another. Each round takes every side, so that whatever else the machine does concerns them all. It reports medians, of ratios the median of
// the rounds' own, and the shortest first command, which is what a loaded machine can tell about a quiet one.
func BenchmarkNative(b *testing.B) {
	m := newSpared(b)
	command := machine.Command{Script: "true"}
	warm, err := m.Get(b.Context(), "web:warm", "default", small)
	if err != nil {
		b.Fatal(err)
	}
	found, err := warm.Exec(b.Context(), machine.Command{Script: "command -v bash"})
	if err != nil {
		b.Fatal(err)
	}
	shell := string(found.Stdout[:max(len(found.Stdout)-1, 0)])
	const each, rest = 5, 20 * time.Millisecond
	bubblewrap, _ := exec.LookPath("bwrap")
	var first, atOnce, again, host, bwrap, ratio, times []float64
	took := func(do func() error) float64 {
		began := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		return float64(time.Since(began).Microseconds())
	}
	begin := func(session message.WorkspaceKey) float64 {
		defer func() {
			if err := m.Destroy(context.Background(), session); err != nil {
				b.Fatal(err)
			}
		}()
		return took(func() error {
			s, err := m.Get(b.Context(), session, "default", small)
			if err == nil {
				_, err = s.Exec(b.Context(), command)
			}
			return err
		})
	}
	for i := 0; b.Loop(); i++ {
		m.awaitSpare(b)
		time.Sleep(rest)
		first = append(first, begin(message.WorkspaceKey(fmt.Sprintf("web:first-%d", i))))
		atOnce = append(atOnce, begin(message.WorkspaceKey(fmt.Sprintf("web:at-once-%d", i))))
		var inside, outside []float64
		for range each {
			inside = append(inside, took(func() error { _, err := warm.Exec(b.Context(), command); return err }))
			outside = append(outside, took(exec.Command(shell, "-c", "true").Run))
			if bubblewrap != "" {
				bwrap = append(bwrap, took(exec.Command(bubblewrap, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
					"--tmpfs", "/tmp", "--chdir", "/tmp", shell, "-c", "true").Run))
			}
		}
		again, host = append(again, inside...), append(host, outside...)
		ratio = append(ratio, median(inside)/median(outside))
		times = append(times, first[len(first)-1]/median(outside))
	}
	b.ReportMetric(median(first), "µs/first")
	b.ReportMetric(slices.Min(first), "µs/first-min")
	b.ReportMetric(median(atOnce), "µs/at-once")
	b.ReportMetric(median(again), "µs/warm")
	b.ReportMetric(median(host), "µs/host")
	b.ReportMetric(median(times), "first/host")
	if len(bwrap) > 0 {
		b.ReportMetric(median(bwrap), "µs/bubblewrap")
		b.ReportMetric(median(first)/median(bwrap), "first/bubblewrap")
	}
	b.ReportMetric(median(ratio), "warm/host")
	b.ReportMetric(0, "ns/op")
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}
