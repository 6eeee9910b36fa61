package turnbench

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

var tableTurns = flag.Int("turns", 1000, "turns of one person in a row of the table; people side by side have eight times as many")

// BenchmarkTable takes every figure that is owed in one run and prints them as one table, beside those of other hosts where the environment
// names their programs (see rival_test.go). A part can be taken alone: -bench 'Table/resume'. Each takes a fixed number of
// turns, whatever -benchtime says, all of them some minutes.
func BenchmarkTable(b *testing.B) {
	t := &table{bin: build(b)}
	for _, part := range []struct {
		name string
		take func(*testing.B, *table)
	}{
		{"turns", takeTurns}, {"sandbox", takeSandbox}, {"idle_sessions", takeIdleSessions}, {"resume", takeResume}, {"context", takeContext},
		{"start", takeStart},
		{"rivals", takeRivals},
	} {
		b.Run(part.name, func(b *testing.B) {
			for b.Loop() {
				part.take(b, t)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	t.print()
}

// table is what was measured.
type table struct {
	bin   string
	rows  []row
	sides []string // ours first
	notes []string

	ready time.Duration // ours, from the start on
	rss   int64         // ours, idle
}

// row is one figure.
type row struct {
	what  string
	owed  string // empty where nothing is
	met   bool
	cells map[string]string // by side
}

const ours = "flynn"

// add puts a figure of ours into the table.
func (t *table) add(what, text, owed string, met bool) {
	r := t.put(what, ours, text)
	r.owed, r.met = owed, met
}

// owe has a figure of ours, if it was taken, owe something else than before: what a peer does in this run says more than what the best of
// them did on another machine.
func (t *table) owe(what, owed string, met bool) {
	for i, r := range t.rows {
		if r.what == what && r.cells[ours] != "" {
			t.rows[i].owed, t.rows[i].met = owed, met
		}
	}
}

// put puts a figure of a side into the table. One that is taken again counts instead of the one before.
func (t *table) put(what, side, text string) *row {
	if !slices.Contains(t.sides, side) {
		t.sides = append(t.sides, side)
	}
	i := slices.IndexFunc(t.rows, func(r row) bool { return r.what == what })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, row{what: what, cells: map[string]string{}})
	}
	t.rows[i].cells[side] = text
	return &t.rows[i]
}

// note says something below the table, once.
func (t *table) note(text string) {
	if !slices.Contains(t.notes, text) {
		t.notes = append(t.notes, text)
	}
}

// print prints the table: benchmarks' own lines have no room for what is owed.
func (t *table) print() {
	if len(t.rows) == 0 {
		return
	}
	fmt.Printf("\n%d cores, load average %s\n", runtime.NumCPU(), load())
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 3, ' ', 0)
	fmt.Fprintf(w, "\t%s\towed\t\n", strings.Join(t.sides, "\t"))
	for _, r := range t.rows {
		fmt.Fprint(w, r.what)
		for _, side := range t.sides {
			fmt.Fprint(w, "\t", cmp.Or(r.cells[side], "-"))
		}
		met := ""
		switch {
		case r.owed != "" && r.met:
			met = "met"
		case r.owed != "":
			met = "NOT met"
		}
		fmt.Fprintf(w, "\t%s\t%s\n", r.owed, met)
	}
	w.Flush()
	for _, n := range t.notes {
		fmt.Println(n)
	}
}

// load is how busy the machine has been for a minute, five and fifteen; times of a busy one say little.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// spread is a middle and a bad time.
func spread(sorted []time.Duration) string {
	return fmt.Sprintf("p50 %.2f, p99 %.2f ms", millis(quantile(sorted, 0.5)), millis(quantile(sorted, 0.99)))
}

// addTurns adds turns whose middle one owes a time.
func (t *table) addTurns(what string, sorted []time.Duration, owed time.Duration) {
	t.add(what, spread(sorted), fmt.Sprintf("p50 <= %v", owed), quantile(sorted, 0.5) <= owed)
}

// must ends the benchmark with the log of the host.
func (f *floor) must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("%v; the log ends with:\n%s", err, f.program.Tail())
	}
}

// takeTurns measures turns through a channel plugin with the demo model: alone, and of sessions side by side.
func takeTurns(b *testing.B, t *table) {
	f := newFloor(b, t.bin, hosttest.Config{})
	for _, c := range []struct {
		what string
		say  func(int) string
		owed time.Duration
	}{{"turn, text", text, 2 * time.Millisecond}, {"turn, one host tool", note, 4 * time.Millisecond}} {
		took, err := f.talk(*tableTurns, 1, c.say)
		f.must(b, err)
		t.addTurns(c.what, took, c.owed)
	}
	for _, c := range []struct{ sessions, turns, owed int }{{1, *tableTurns, 0}, {16, 8 * *tableTurns, 2000}, {256, 8 * *tableTurns, 0}} {
		_, err := f.talk(2*c.sessions, c.sessions, text) // the first turn of a session writes more
		f.must(b, err)
		cpu, began := cpuTime(f.program.PID()), time.Now()
		took, err := f.talk(c.turns, c.sessions, text)
		f.must(b, err)
		rate := float64(c.turns) / time.Since(began).Seconds()
		owed := ""
		if c.owed > 0 {
			owed = fmt.Sprintf(">= %d/s", c.owed)
		}
		t.add(fmt.Sprintf("durable text turns, %d sessions", c.sessions), fmt.Sprintf("%.0f/s, %s, %.2f ms of CPU each", rate, spread(took),
			millis(cpuTime(f.program.PID())-cpu)/float64(c.turns)), owed, rate >= float64(c.owed))
	}
}

// takeContext measures the first turn after a start in a session of a thousand steps, past the same in one of two turns.
func takeContext(b *testing.B, t *table) {
	const turns, stepsOfOne = 200, 5
	f := newFloor(b, t.bin, hosttest.Config{})
	long, short := sessions, sessions+1
	_, err := f.talkIn(long, turns, note)
	f.must(b, err)
	_, err = f.talkIn(short, 2, note)
	f.must(b, err)
	var loaded []time.Duration
	for range 10 {
		f.must(b, f.program.Stop())
		f.must(b, f.program.Start())
		f.warm(b)
		plain, err := f.turn(short, text)
		f.must(b, err)
		whole, err := f.turn(long, text)
		f.must(b, err)
		loaded = append(loaded, whole-plain)
	}
	slices.Sort(loaded)
	t.addTurns(fmt.Sprintf("context of %d steps loaded, in a turn", turns*stepsOfOne), loaded, 20*time.Millisecond)
	t.note("The load of a context without a turn around it: just bench agent, Context.")
}

// talkIn has n turns in one session.
func (f *floor) talkIn(session, n int, say func(int) string) ([]time.Duration, error) {
	return together(n, 1, func(int) (time.Duration, error) { return f.turn(session, say) })
}

// Start and idle memory of the best of the peers that were measured; see rival_test.go for those of this run.
const (
	bestStart = 14 * time.Millisecond
	bestRSS   = 29_200_000
)

// takeStart measures the host alone, without plugins and policies.
func takeStart(b *testing.B, t *table) {
	p := hosttest.New(b, hosttest.Config{Bin: t.bin})
	launch(b, p)
	var took, cpu []time.Duration
	for range 20 {
		ready, used := launch(b, p)
		took, cpu = append(took, ready), append(cpu, used)
	}
	slices.Sort(took)
	slices.Sort(cpu)
	t.add("start to ready", fmt.Sprintf("min %.1f, p50 %.1f ms; %.1f ms of CPU", millis(took[0]), millis(quantile(took, 0.5)), millis(quantile(cpu, 0.5))),
		fmt.Sprintf("p50 < %v", bestStart), quantile(took, 0.5) < bestStart)
	sizes := idle(b, p, (*hosttest.Program).Stop)
	t.ready, t.rss = quantile(took, 0.5), sizes["RSS"]
	t.add("idle memory", idleText(sizes), fmt.Sprintf("RSS < %d MB", bestRSS/1_000_000), sizes["RSS"] < bestRSS)
}

func idleText(sizes map[string]int64) string {
	return fmt.Sprintf("RSS %.1f MB: anon %.1f, file %.1f", mega(sizes["RSS"]), mega(sizes["anon"]), mega(sizes["file"]))
}

func mega(n int64) float64 { return float64(n) / 1e6 }
