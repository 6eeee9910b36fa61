package turnbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// BenchmarkStart measures from the start of the process until it says that it is ready, on a store that is there, without
// plugins and policies.
func BenchmarkStart(b *testing.B) {
	p := hosttest.New(b, hosttest.Config{Bin: build(b)})
	launch(b, p)
	var took, cpu []time.Duration
	for b.Loop() {
		ready, used := launch(b, p)
		took, cpu = append(took, ready), append(cpu, used)
	}
	slices.Sort(took)
	slices.Sort(cpu)
	b.ReportMetric(millis(took[0]), "min-ms")
	b.ReportMetric(millis(quantile(took, 0.5)), "p50-ms")
	b.ReportMetric(millis(quantile(took, 0.99)), "p99-ms")
	b.ReportMetric(millis(quantile(cpu, 0.5)), "cpu-p50-ms")
}

// launch starts a process, waits until it is ready, and stops it. It returns the time until then, and what the process has used of the
// processors by then, which says more on a machine with other work.
func launch(b *testing.B, p *hosttest.Program) (took, cpu time.Duration) {
	ctx, cancel := context.WithTimeout(b.Context(), answerTimeout)
	defer cancel()
	began := time.Now()
	if err := p.Start(); err != nil {
		b.Fatal(err)
	}
	if err := p.ReadyWithin(ctx, 250*time.Microsecond); err != nil {
		b.Fatal(err)
	}
	took, cpu = time.Since(began), preciseTime(p.PID())
	if err := p.Stop(); err != nil {
		b.Fatal(err)
	}
	return took, cpu
}

// preciseTime is what a process has been on the processors by the scheduler's account (proc(5), schedstat: nanoseconds first), of all
// its threads; 0 where nobody tells.
func preciseTime(pid int) (sum time.Duration) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0
	}
	for _, name := range threads {
		var ns int64
		if text, err := os.ReadFile(name); err == nil {
			fmt.Sscan(string(text), &ns)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// idleAfter is when a host that was started and left alone is looked at.
const idleAfter = 3 * time.Second

// BenchmarkIdle measures the memory of the host process, without plugins and policies, some seconds after its start.
func BenchmarkIdle(b *testing.B) {
	p := hosttest.New(b, hosttest.Config{Bin: build(b)})
	for b.Loop() {
		for name, size := range idle(b, p, (*hosttest.Program).Stop) {
			b.ReportMetric(float64(size)/1e6, strings.ToLower(name)+"-MB")
		}
	}
}

// idle starts a process, leaves it alone, looks at its memory and ends it.
func idle(b *testing.B, p *hosttest.Program, end func(*hosttest.Program) error) map[string]int64 {
	ctx, cancel := context.WithTimeout(b.Context(), answerTimeout)
	defer cancel()
	if err := errors.Join(p.Start(), p.Ready(ctx)); err != nil {
		b.Fatal(err)
	}
	<-time.After(idleAfter)
	sizes := sizesOf(b, p.PID())
	if err := end(p); err != nil {
		b.Fatal(err)
	}
	return sizes
}

// sizesOf is the memory of a process: in all, its own, and pages of files, most of them of the program itself.
func sizesOf(b *testing.B, pid int) map[string]int64 {
	rollup, err := memory(pid)
	if errors.Is(err, os.ErrNotExist) {
		b.Skip("this system does not tell the memory of a process in /proc")
	}
	if err != nil {
		b.Fatal(err)
	}
	return map[string]int64{"RSS": rollup["Rss"], "PSS": rollup["Pss"], "anon": rollup["Pss_Anon"], "file": rollup["Pss_File"]}
}

// cpuTime is what a process has used of the processors, as proc(5) tells it, in steps of 10 ms; 0 where nobody tells.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // after the name
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// memory reads what the kernel says about the memory of a process, in bytes.
func memory(pid int) (map[string]int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sizes := map[string]int64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var name string
		var kb int64
		if n, _ := fmt.Sscanf(lines.Text(), "%s %d kB", &name, &kb); n == 2 {
			sizes[strings.TrimSuffix(name, ":")] = kb << 10
		}
	}
	return sizes, lines.Err()
}
