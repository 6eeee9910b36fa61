package fanin

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/hosttest"
)

// at is a percentile of durations.
func at(d []time.Duration, percent int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)].Round(10 * time.Microsecond)
}

// memory is what the kernel says about a process, in bytes.
type memory struct{ resident, private int64 }

func memoryOf(pid int) memory {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return memory{}
	}
	defer f.Close()
	var m memory
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "Rss:":
			m.resident = kib << 10
		case "Private_Clean:", "Private_Dirty:":
			m.private += kib << 10
		}
	}
	return m
}

// plugins is the memory of all plugin processes: that of the middle one, and the most.
func (c *crowd) plugins() (middle, most memory) {
	var all []memory
	for _, p := range c.platforms {
		if pid := p.PluginPID(); pid != 0 {
			all = append(all, memoryOf(pid))
		}
	}
	if len(all) == 0 {
		return memory{}, memory{}
	}
	slices.SortFunc(all, func(a, b memory) int { return int(a.resident - b.resident) })
	return all[len(all)/2], all[len(all)-1]
}

// heapTrace has the host write a line into its log after each collection of garbage.
const heapTrace = "GODEBUG=gctrace=1"

// collected matches such a line: what was on the heap before, at the end, and what of it is alive, in MiB.
var collected = regexp.MustCompile(`(?m)^gc \d+ @.* (\d+)->(\d+)->(\d+) MB`)

// heap is what was alive on the host's heap after its latest collection, in MiB.
func (c *crowd) heap() int {
	text, err := os.ReadFile(c.program.Log)
	all := collected.FindAllSubmatch(text, -1)
	if err != nil || len(all) == 0 {
		return 0
	}
	alive, _ := strconv.Atoi(string(all[len(all)-1][3]))
	return alive
}

// lastAck is when the platform heard the latest ack.
func (c *crowd) lastAck() (at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.said {
		if s.acked.After(at) {
			at = s.acked
		}
	}
	return at
}

// latencies are the times from what was said to the platform's ack, and to the answer.
func (c *crowd) latencies() (acks, answers []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.said {
		if !s.acked.IsZero() {
			acks = append(acks, s.acked.Sub(s.at))
		}
		if s.answers > 0 {
			answers = append(answers, s.answered.Sub(s.at))
		}
	}
	return acks, answers
}

// figures puts everything on one line.
func (c *crowd) figures() string {
	acks, answers := c.latencies()
	host := memoryOf(c.program.PID())
	middle, most := c.plugins()
	return fmt.Sprintf("host start to plugins connected p50 %v, max %v; host %d MiB on the heap, %d resident, %d private; a plugin %d MiB resident, %d private, at most %d; "+
		"said to acked p50 %v, p99 %v; said to answered p50 %v, p99 %v",
		at(c.ready, 50), at(c.ready, 100), c.heap(), host.resident>>20, host.private>>20, middle.resident>>20, middle.private>>20, most.resident>>20,
		at(acks, 50), at(acks, 99), at(answers, 50), at(answers, 99))
}

// forget begins the figures anew.
func (c *crowd) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.said)
}

// BenchmarkFanIn lets 1,000 people on 20 channels talk: all at once, and at a pace that the host can keep up with.
func BenchmarkFanIn(b *testing.B) {
	bin := hosttest.Build(b)
	for _, channels := range []int{1, 20} {
		b.Run(fmt.Sprintf("channels=%d", channels), func(b *testing.B) {
			c := newCrowd(b, bin, channels)
			c.round(1000) // the first turn of a conversation writes more than a later one
			c.settle(0)
			c.forget()
			b.Run("at_once", func(b *testing.B) {
				c.t = b
				acking := time.Duration(0)
				for b.Loop() {
					began := time.Now()
					c.round(1000)
					c.settle(0)
					acking += c.lastAck().Sub(began)
				}
				b.ReportMetric(float64(1000*b.N)/acking.Seconds(), "acked/s")
				b.ReportMetric(float64(1000*b.N)/b.Elapsed().Seconds(), "answered/s")
				c.metrics(b)
			})
			c.forget()
			b.Run("one_by_one", func(b *testing.B) {
				c.t = b
				for b.Loop() {
					c.chat(0, 1)
				}
				c.metrics(b)
			})
			c.judge()
		})
	}
}

func (c *crowd) metrics(b *testing.B) {
	acks, answers := c.latencies()
	host := memoryOf(c.program.PID())
	middle, _ := c.plugins()
	for name, d := range map[string]time.Duration{
		"ack-p50-ms": at(acks, 50), "ack-p99-ms": at(acks, 99), "answer-p50-ms": at(answers, 50), "answer-p99-ms": at(answers, 99),
		"connected-p50-ms": at(c.ready, 50), "connected-max-ms": at(c.ready, 100),
	} {
		b.ReportMetric(float64(d)/float64(time.Millisecond), name)
	}
	b.ReportMetric(float64(c.heap()), "host-heap-MiB")
	for name, n := range map[string]int64{
		"host-rss-MiB": host.resident, "host-private-MiB": host.private, "plugin-rss-MiB": middle.resident, "plugin-private-MiB": middle.private,
	} {
		b.ReportMetric(float64(n)/(1<<20), name)
	}
}
