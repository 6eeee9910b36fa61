package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/policy"
)

// BenchReport is what a policy's decisions cost on this machine, measured over its own cases.
type BenchReport struct {
	Policy  string        `json:"policy"`
	SHA256  string        `json:"sha256"`
	Bytes   int64         `json:"bytes"`
	Cases   int           `json:"cases"`
	Compile time.Duration `json:"compile_ns"` // from the file to the first instance, nothing kept
	Cached  time.Duration `json:"cached_ns"`  // the same with the compiled code of before
	Memory  int64         `json:"memory"`     // bytes of linear memory of one instance
	Fuel    FuelUse       `json:"fuel"`
	Runs    []BenchRun    `json:"runs"`
}

// FuelUse is exact: the same case costs the same on every machine.
type FuelUse struct {
	P50   int64  `json:"p50"`
	Max   int64  `json:"max"`
	Worst string `json:"worst"` // the case that costs most
	Limit int64  `json:"limit"`
}

// BenchRun is one way of asking.
type BenchRun struct {
	Isolation string        `json:"isolation"` // warm, or pure: an instance in its first state for each decision
	Workers   int           `json:"workers"`
	Decisions int           `json:"decisions"`
	P50       time.Duration `json:"p50_ns"`
	P95       time.Duration `json:"p95_ns"`
	P99       time.Duration `json:"p99_ns"`
	PerSecond float64       `json:"per_second"`
}

// benchMost bounds what one worker measures in a run, and so the memory for it.
const benchMost = 200_000

// Bench asks the built module in dir its cases over and over, for about the time that is given to each way of asking.
func Bench(ctx context.Context, dir string, each time.Duration) (report BenchReport, err error) {
	p, err := OpenSubject(dir)
	if err != nil {
		return BenchReport{}, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	cache, forget, err := temporaryCache() // compiling is measured, too
	if err != nil {
		return BenchReport{}, err
	}
	defer func() { err = errors.Join(err, forget()) }()
	p.cache = cache
	cases, err := p.Cases()
	if err != nil {
		return BenchReport{}, err
	}
	cases = sameData(cases)
	report = BenchReport{Policy: p.manifest.Name, SHA256: p.sha256, Cases: len(cases)}
	info, err := os.Stat(p.path)
	if err != nil {
		return BenchReport{}, err
	}
	report.Bytes = info.Size()
	for _, isolation := range []string{policy.IsolationWarm, policy.IsolationPure} {
		if err := p.benchIsolation(ctx, isolation, cases, each, &report); err != nil {
			return BenchReport{}, fmt.Errorf("%s: %w", isolation, err)
		}
	}
	return report, nil
}

// sameData are the cases with the data that most have: a module is loaded with one set.
func sameData(cases []Case) []Case {
	groups := map[string][]Case{}
	var most string
	for _, c := range cases {
		data, _ := json.Marshal(c.Data) // strings always can be
		key := string(data)
		groups[key] = append(groups[key], c)
		if most == "" || len(groups[key]) > len(groups[most]) {
			most = key
		}
	}
	return groups[most]
}

func (p *Subject) benchIsolation(ctx context.Context, isolation string, cases []Case, each time.Duration, report *BenchReport) (err error) {
	questions := make([]prepared, len(cases))
	for i, c := range cases {
		questions[i] = prepare(c)
	}
	source := p.source(cases[0], Mode{Isolation: isolation})
	begin := time.Now()
	engine, err := policy.New(ctx, policy.Config{CacheDir: p.cache, Sources: []policy.Source{source}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	s := engine.Status()[0]
	if s.State != policy.StateRunning {
		return errors.New(s.Error)
	}
	if report.Compile == 0 {
		report.Compile, report.Memory, report.Fuel.Limit = time.Since(begin), s.MemoryEach, s.FuelLimit
		report.Fuel.measure(ctx, engine, questions)
	} else {
		report.Cached = time.Since(begin)
	}
	for _, workers := range slices.Compact([]int{1, runtime.GOMAXPROCS(0)}) {
		run := benchRun(ctx, engine, questions, workers, each)
		run.Isolation = isolation
		report.Runs = append(report.Runs, run)
	}
	return ctx.Err()
}

func (f *FuelUse) measure(ctx context.Context, engine *policy.Engine, questions []prepared) {
	chain := engine.Pin()
	defer chain.Release()
	spent := make([]int64, len(questions))
	for i, q := range questions {
		spent[i] = q.ask(ctx, chain.Asker()).Fuel
		if spent[i] >= f.Max {
			f.Max, f.Worst = spent[i], q.name
		}
	}
	slices.Sort(spent)
	f.P50 = spent[len(spent)/2]
}

// prepared is a case as the host has it when it asks: its facts are there.
type prepared struct {
	name  string
	route *policy.RouteFacts
	tool  *policy.ToolFacts
}

func prepare(c Case) prepared {
	if c.Kind == kindTool {
		f := c.ToolFacts()
		return prepared{name: c.Name, tool: &f}
	}
	f := c.RouteFacts()
	return prepared{name: c.Name, route: &f}
}

// ask returns the record of the one policy that there is.
func (q prepared) ask(ctx context.Context, a *policy.Asker) policy.Record {
	var records []policy.Record
	if q.tool != nil {
		_, records = a.Tool(ctx, q.tool)
	} else {
		_, records = a.Route(ctx, q.route)
	}
	if len(records) == 0 {
		return policy.Record{}
	}
	return records[0]
}

// benchRun has each worker ask until the time is over. What it measures is the decision as its caller waits for it.
func benchRun(ctx context.Context, engine *policy.Engine, questions []prepared, workers int, each time.Duration) BenchRun {
	took := make([][]time.Duration, workers)
	begin := time.Now()
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() { took[w] = benchWorker(ctx, engine, questions, w, begin.Add(each)) })
	}
	all.Wait()
	whole := time.Since(begin)
	sorted := slices.Sorted(slices.Values(slices.Concat(took...)))
	run := BenchRun{Workers: workers, Decisions: len(sorted), PerSecond: float64(len(sorted)) / whole.Seconds()}
	if n := len(sorted); n > 0 {
		run.P50, run.P95, run.P99 = sorted[n/2], sorted[n*95/100], sorted[n*99/100]
	}
	return run
}

func benchWorker(ctx context.Context, engine *policy.Engine, questions []prepared, from int, until time.Time) []time.Duration {
	chain := engine.Pin()
	defer chain.Release()
	asker := chain.Asker()
	took := make([]time.Duration, 0, benchMost)
	for i := from; len(took) < benchMost && ctx.Err() == nil; i++ {
		began := time.Now()
		questions[i%len(questions)].ask(ctx, asker)
		now := time.Now()
		took = append(took, now.Sub(began))
		if now.After(until) {
			break
		}
	}
	return took
}
