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
	"text/tabwriter"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
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

// row is what one way of talking came to.
type row struct {
	name            string
	c               *crowd
	messages, again int           // said, and delivered once more
	took            time.Duration // until everything was answered
	acking          time.Duration // until everything was acked
}

// measure lets people talk as f does, and waits until everything is answered.
func (c *crowd) measure(name string, f func()) row {
	c.forget()
	c.again = 0
	began := time.Now()
	f()
	c.settle(0)
	r := row{name: name, c: c, took: time.Since(began), acking: c.lastAck().Sub(began), again: c.again}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.messages = len(c.said)
	return r
}

func (r row) print(w *tabwriter.Writer) {
	acks, answers := r.c.latencies()
	host := memoryOf(r.c.program.PID())
	middle, _ := r.c.plugins()
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	mib := func(n int64) float64 { return float64(n) / (1 << 20) }
	fmt.Fprintf(w, "%d\t%d\t%d\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%.0f\t%.0f\t%.1f\t%.1f\t  %s\n", len(r.c.platforms), r.messages, r.again,
		float64(r.messages)/r.acking.Seconds(), float64(r.messages)/r.took.Seconds(), ms(at(acks, 50)), ms(at(acks, 99)), ms(at(answers, 50)),
		ms(at(answers, 99)), r.c.heap(), mib(host.resident), mib(host.private), mib(middle.resident), mib(middle.private), r.name)
}

// BenchmarkFanIn prints what 1,000 people cost who talk on one channel and on 20: all at once, through storms of broken connections and of
// events that come again, and one after the other. Nothing may be answered twice or out of order. Then how one who speaks on a quiet
// channel fares while another channel is flooded.
func BenchmarkFanIn(b *testing.B) {
	bin := hosttest.Build(b)
	for b.Loop() {
		w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "channels\tmessages\tagain\tacked/s\tanswered/s\tack p50\tp99 ms\tanswer p50\tp99 ms\thost heap\trss\tprivate MiB\tplugin rss\tprivate MiB\t ")
		for _, channels := range []int{1, 20} {
			talk(b, bin, w, channels)
		}
		if err := w.Flush(); err != nil {
			b.Fatal(err)
		}
		fair(b, bin)
	}
	fmt.Println("What 20 channels cost is held against one. Another host beside this one: just bench turnbench, with FLYNN_BENCH_PICOCLAW.")
}

// talk prints the rows of one number of channels.
func talk(b *testing.B, bin string, w *tabwriter.Writer, channels int) {
	c := newCrowd(b, bin, channels)
	fmt.Fprintf(w, "%d\t\t\t\t\t\t\t\t\t\t\t\t\t\t  all connected after p50 %v, max %v\n", channels, at(c.ready, 50), at(c.ready, 100))
	for _, way := range []struct {
		name string
		f    func()
	}{
		{"first turn of each conversation", func() { c.round(1000) }},
		{"at once", func() { c.round(1000) }},
		{"5 reconnect storms", func() { c.round(1000); c.storm(5, 0) }},
		{"5 storms that deliver again", func() { c.round(1000); c.storm(5, 1000/channels) }},
		{"one after the other", func() { c.chat(0, 200) }},
	} {
		c.measure(way.name, way.f).print(w)
	}
	c.judge()
}

// fair prints how long answers on a quiet channel take while another one is flooded.
func fair(b *testing.B, bin string) {
	const flood, quiet = 3000, 40
	c := newCrowd(b, bin, 2)
	c.chat(1, quiet) // first turns
	before := c.chat(1, quiet)
	for i := range flood {
		c.say(0, conversation(0, i%100))
	}
	during := c.chat(1, quiet)
	c.mu.Lock()
	left := c.open
	c.mu.Unlock()
	c.settle(0)
	c.judge()
	fmt.Printf("fairness: an answer on a quiet channel takes p50 %v, max %v alone; p50 %v, max %v while %d of %d messages of another channel wait\n",
		at(before, 50), at(before, 100), at(during, 50), at(during, 100), left, flood)
}
