package policy

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

var benchTurns = flag.Int("turns", 40, "turns that each side of the table of benchmarks takes")

// roundsInTurn is how often a side asks all the messages before it is another's turn.
const roundsInTurn = 25

// BenchmarkTable prints what a decision by twenty rules costs, in every language and beside others, taken in turns in one run; then what the
// meter takes of it, what instances cost, and what happens to decisions while a module is replaced. It takes a fixed number of
// turns, some minutes, whatever -benchtime says.
//
//	just bench policy
//
// Ours decide with all facts of a message, which they get as the host has them, with fuel, depth guard, deadline and a record. OPA gets ready-made
// values and has no limits, an Extism plugin gets the bytes that it wants. A figure is of a round of eight messages, divided by eight,
// so that reading the clock does not count. "module" is the part of a decision between its frame and its decision: the frame written into
// the instance, the metered call, the answer read, its time taken.
func BenchmarkTable(b *testing.B) {
	t := newTable(b)
	for b.Loop() {
		t.decisions()
		t.metering()
		t.instances()
		t.swaps()
	}
	b.ReportMetric(0, "ns/op")
}

// table is one run of all parts.
type table struct {
	b        *testing.B
	messages []RouteFacts
	want     []string
	paths    map[string]string // of the modules, by language
	sides    []*side
}

// side is one way to decide. ask makes rounds by so many workers, each on a core of its own, and returns what one decision
// took in each round, and what the module's part of it did where that is known.
type side struct {
	name   string
	ask    func(workers, rounds int) (whole, module []time.Duration)
	one    results
	two    results
	module []time.Duration
}

// results are of the rounds by one or two workers.
type results struct {
	each []time.Duration
	span time.Duration // of all turns
}

func newTable(b *testing.B) *table {
	t := &table{b: b, paths: map[string]string{}}
	t.messages, t.want = ruleMessages()
	for _, c := range rulesInAllLanguages() {
		t.paths[c.language] = c.build(b)
	}
	t.addNative()
	for _, c := range rulesInAllLanguages() {
		t.addOurs(c.language, c.language, IsolationWarm)
	}
	t.addRego(IsolationWarm)
	for _, c := range rulesInAllLanguages() {
		t.addOurs(c.language+", pristine", c.language, IsolationPure)
	}
	t.addRivals()
	return t
}

func (t *table) add(name string, ask func(workers, rounds int) (whole, module []time.Duration)) {
	t.sides = append(t.sides, &side{name: name, ask: ask})
}

func (t *table) addNative() {
	var keys []string
	for _, f := range t.messages {
		keys = append(keys, string(f.Message.SenderKey()))
	}
	t.add("native Go", func(workers, rounds int) (whole, module []time.Duration) {
		return t.work(workers, rounds, func() func(int) (string, time.Duration) {
			return func(n int) (string, time.Duration) { return nativeRoute(t.messages[n].Message.Channel, keys[n]), 0 }
		})
	})
}

// work makes rounds side by side. Each worker gets a function that decides on the n-th message.
func (t *table) work(workers, rounds int, worker func() func(n int) (string, time.Duration)) (whole, module []time.Duration) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
	var all sync.WaitGroup
	whole, module = make([]time.Duration, workers*rounds), make([]time.Duration, workers*rounds)
	for k := range workers {
		whole, module := whole[k*rounds:][:rounds], module[k*rounds:][:rounds]
		all.Go(func() { t.rounds(worker(), whole, module) })
	}
	all.Wait()
	return whole, module
}

func (t *table) rounds(decide func(n int) (string, time.Duration), whole, module []time.Duration) {
	n := time.Duration(len(t.messages))
	for r := range whole {
		var inside time.Duration
		began := time.Now()
		for i, want := range t.want {
			got, took := decide(i)
			if inside += took; got != want {
				t.b.Errorf("message %d is sent to %q, want %q", i, got, want)
			}
		}
		whole[r], module[r] = time.Since(began)/n, inside/n
	}
}

func (t *table) addOurs(name, language, isolation string) {
	s := engine(t.b, Source{Name: "rules", Path: t.paths[language], Kinds: []string{KindRoute}, Isolation: isolation}).Pin()
	t.b.Cleanup(s.Release)
	t.add(name, func(workers, rounds int) (whole, module []time.Duration) {
		return t.work(workers, rounds, func() func(int) (string, time.Duration) {
			return func(n int) (string, time.Duration) {
				a, records := s.Route(context.Background(), t.messages[n])
				return a.Agent, records[0].Took
			}
		})
	})
}

// addRego adds the rules in Rego on our engine, and OPA as a library.
func (t *table) addRego(isolation string) {
	program, err := buildRival(t.b, "opa")
	if err != nil {
		t.b.Fatal(err)
	}
	t.paths["Rego"] = filepath.Join(t.b.TempDir(), "rego.wasm")
	run(t.b, nil, program, "compile", "testdata/bench/rego", t.paths["Rego"])
	t.addOurs("Rego", "Rego", isolation)
	t.addRival("OPA in process", program, "all", "testdata/bench/rego")
	t.addRival("OPA in process, least input", program, "least", "testdata/bench/rego")
	t.addRival("OPA in process, rules as a table", program, "all", "testdata/bench/regotable")
}

func (t *table) addRivals() {
	program, err := buildRival(t.b, "extism")
	if err != nil {
		t.b.Logf("without Extism: %v", err)
		return
	}
	plugin := buildC(t.b, "testdata/bench/extism/plugin/rules.c")
	t.addRival("Extism, C", program, plugin, "0")
	t.addRival("Extism, C, timeout", program, plugin, "5000")
}

// addRival asks one process for each worker.
func (t *table) addRival(name, program string, args ...string) {
	questions := rivalQuestions(t.b, t.messages, t.want)
	processes := []*rival{startRival(t.b, questions, program, args...), startRival(t.b, questions, program, args...)}
	t.add(name, func(workers, rounds int) (whole, module []time.Duration) {
		took := make([][]time.Duration, workers)
		var all sync.WaitGroup
		for k := range workers {
			all.Go(func() { took[k] = processes[k].rounds(t.b, rounds, len(t.messages)) })
		}
		all.Wait()
		return slices.Concat(took...), nil
	})
}

func (t *table) decisions() {
	for _, s := range t.sides {
		s.ask(2, 2*roundsInTurn) // warm
	}
	for range *benchTurns {
		for _, s := range t.sides {
			s.turn(1, &s.one)
			s.turn(2, &s.two)
		}
	}
	t.report()
}

func (s *side) turn(workers int, r *results) {
	began := time.Now()
	whole, module := s.ask(workers, roundsInTurn)
	r.span += time.Since(began)
	r.each = append(r.each, whole...)
	if workers == 1 {
		s.module = append(s.module, module...)
	}
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[int(q*float64(len(sorted)-1))]
}

func median(took []time.Duration) time.Duration {
	slices.Sort(took)
	return quantile(took, 0.5)
}

// perSecond is the rate of the decisions themselves: those of one worker, times the workers.
func (r *results) perSecond(workers int) float64 {
	var sum time.Duration
	for _, d := range r.each {
		sum += d
	}
	return float64(workers) * float64(len(r.each)) / sum.Seconds()
}

func (t *table) side(name string) *side {
	for _, s := range t.sides {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (t *table) report() {
	fmt.Printf("\ndecision by 20 rules, %d turns of %d rounds, nanoseconds\n", *benchTurns, roundsInTurn)
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "p50\tp99\tleast\tmodule p50\tleast\tx native\t/s, 1 core\tp50, 2 cores\t/s, 2 cores\t ")
	native := median(t.sides[0].one.each)
	for _, s := range t.sides {
		p50, both := median(s.one.each), median(s.two.each)
		module, least := "", ""
		if len(s.module) > 0 && s.module[0] > 0 {
			module, least = fmt.Sprint(median(s.module).Nanoseconds()), fmt.Sprint(s.module[0].Nanoseconds())
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%s\t%s\t%.1f\t%.0f\t%d\t%.0f\t  %s\n", p50, quantile(s.one.each, 0.99), s.one.each[0], module, least,
			float64(p50)/float64(cmp.Or(native, 1)), s.one.perSecond(1), both, s.two.perSecond(2), s.name)
	}
	w.Flush()
	t.ratios()
}

// ratios compares medians with those of others: of the whole decision, and of the module's part alone.
func (t *table) ratios() {
	fmt.Println("\ntimes faster by p50: the whole decision, and (the module's part of it)")
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	var others []*side
	fmt.Fprint(w, " \t")
	for _, name := range []string{"OPA in process", "OPA in process, least input", "OPA in process, rules as a table", "Extism, C", "Extism, C, timeout"} {
		if s := t.side(name); s != nil {
			others = append(others, s)
			fmt.Fprintf(w, "%s\t", name)
		}
	}
	fmt.Fprintln(w)
	for _, s := range t.sides {
		if len(s.module) == 0 || s.module[0] == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\t", s.name)
		for _, o := range others {
			theirs := float64(median(o.one.each))
			fmt.Fprintf(w, "%.0f (%.0f)\t", theirs/float64(median(s.one.each)), theirs/float64(median(s.module)))
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}
