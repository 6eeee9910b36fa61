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

// BenchReport is the cost of a policy's decisions on this machine, measured with its cases.
type BenchReport struct {
	Policy  string        `json:"policy"`
	SHA256  string        `json:"sha256"`
	Bytes   int64         `json:"bytes"`
	Cases   int           `json:"cases"`
	Compile time.Duration `json:"compile_ns"` // from the file to the first instance, without a cache
	Cached  time.Duration `json:"cached_ns"`  // the same with a cache
	Memory  int64         `json:"memory"`     // bytes of linear memory of one instance
	Fuel    FuelUse       `json:"fuel"`
	Runs    []BenchRun    `json:"runs"`
}

// FuelUse is the fuel of decisions. It is the same on every machine.
type FuelUse struct {
	P50   int64  `json:"p50"`
	Max   int64  `json:"max"`
	Worst string `json:"worst"` // the case with the maximum
	Limit int64  `json:"limit"`
}

// BenchRun is one measurement.
type BenchRun struct {
	Isolation string        `json:"isolation"` // warm, or pure: an instance in its first state for each decision
	Workers   int           `json:"workers"`
	Decisions int           `json:"decisions"`
	P50       time.Duration `json:"p50_ns"`
	P95       time.Duration `json:"p95_ns"`
	P99       time.Duration `json:"p99_ns"`
	PerSecond float64       `json:"per_second"`
}

// benchMost bounds the decisions that one worker measures in a run.
const benchMost = 200_000

// Bench asks the built module in dir its cases repeatedly, for about the time each with each isolation and number of workers.
func Bench(ctx context.Context, dir string, each time.Duration) (report BenchReport, err error) {
	p, err := OpenSubject(dir)
	if err != nil {
		return BenchReport{}, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	cache, forget, err := temporaryCache() // so that compiling is measured
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

// sameData returns the cases with the most frequent data, because a module is loaded with one set of data.
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
		spent[i] = q.ask(ctx, chain).Fuel
		if spent[i] >= f.Max {
			f.Max, f.Worst = spent[i], q.name
		}
	}
	slices.Sort(spent)
	f.P50 = spent[len(spent)/2]
}

// prepared is a case with its facts ready, as the host has them when it asks.
type prepared struct {
	name  string
	route *policy.RouteFacts
	tool  *policy.ToolFacts
}

func prepare(c Case) prepared {
	if c.Kind == policy.KindTool {
		f := c.ToolFacts()
		return prepared{name: c.Name, tool: &f}
	}
	f := c.RouteFacts()
	return prepared{name: c.Name, route: &f}
}

// ask returns the record of the only policy.
func (q prepared) ask(ctx context.Context, chain *policy.Set) policy.Record {
	var records []policy.Record
	if q.tool != nil {
		_, records = chain.Tool(ctx, *q.tool)
	} else {
		_, records = chain.Route(ctx, *q.route)
	}
	if len(records) == 0 {
		return policy.Record{}
	}
	return records[0]
}

// benchRun makes each worker ask until the time is over. It measures how long a caller waits for a decision.
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
	took := make([]time.Duration, 0, benchMost)
	for i := from; len(took) < benchMost && ctx.Err() == nil; i++ {
		began := time.Now()
		questions[i%len(questions)].ask(ctx, chain)
		now := time.Now()
		took = append(took, now.Sub(began))
		if now.After(until) {
			break
		}
	}
	return took
}
