package turnbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/hosttest"
)

// BenchmarkStart measures from the start of the process until it says that it is ready, on a store that is there, without
// plugins and policies.
func BenchmarkStart(b *testing.B) {
	p := hosttest.New(b, hosttest.Config{Bin: hosttest.Build(b)})
	launch(b, p)
	var took []time.Duration
	for b.Loop() {
		took = append(took, launch(b, p))
	}
	slices.Sort(took)
	b.ReportMetric(millis(took[0]), "min-ms")
	b.ReportMetric(millis(took[len(took)/2]), "p50-ms")
	b.ReportMetric(millis(took[len(took)*99/100]), "p99-ms")
}

// launch starts a process, waits until it is ready, and stops it.
func launch(b *testing.B, p *hosttest.Program) time.Duration {
	ctx, cancel := context.WithTimeout(b.Context(), answerTimeout)
	defer cancel()
	began := time.Now()
	if err := p.Start(); err != nil {
		b.Fatal(err)
	}
	if err := p.Ready(ctx); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	if err := p.Stop(); err != nil {
		b.Fatal(err)
	}
	return took
}

// idleAfter is when a host that was started and left alone is looked at.
const idleAfter = 3 * time.Second

// BenchmarkIdle measures the memory of the host process, without plugins and policies, some seconds after its start.
func BenchmarkIdle(b *testing.B) {
	p := hosttest.New(b, hosttest.Config{Bin: hosttest.Build(b)})
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), answerTimeout)
		if err := errors.Join(p.Start(), p.Ready(ctx)); err != nil {
			b.Fatal(err)
		}
		cancel()
		<-time.After(idleAfter)
		rollup, err := memory(p.PID())
		if errors.Is(err, os.ErrNotExist) {
			b.Skip("this system does not tell the memory of a process in /proc")
		}
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"Rss", "Pss", "Pss_Anon", "Pss_File"} {
			b.ReportMetric(float64(rollup[name])/1e6, strings.ToLower(name)+"-MB")
		}
		if err := p.Stop(); err != nil {
			b.Fatal(err)
		}
	}
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
