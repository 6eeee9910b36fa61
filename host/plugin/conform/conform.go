package conform

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/store"
)

// Config says what is tried and how.
type Config struct {
	Dir string // with plugin.toml
	// Limit bounds each check; six times Patience, at least 30 s.
	Limit time.Duration
	// Patience is how long is waited for what a working plugin does at once, such as delivering a message; 5 s.
	Patience time.Duration
	// Slack is what a plugin gets beyond the limits of the contract, such as the second for its end, where the machine has other work;
	// nothing.
	Slack time.Duration
	// Parallel is how many checks run side by side; as many as there are processors, at most 4.
	Parallel int
	// Only names the checks to make; all.
	Only []string
	// Log gets what the plugin writes.
	Log *slog.Logger
	// Done is called with each result as it comes, one at a time.
	Done func(Result)

	quiet time.Duration // how long is waited for what should not happen; 300 ms
}

// Outcome is how a check ended.
type Outcome string

// The outcomes.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
)

// Result is the outcome of one check.
type Result struct {
	Check   string  `json:"check"`
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail,omitempty"` // what is wrong, or why it was skipped
	Next    string  `json:"next,omitempty"`   // what to do about a failure
	TookMS  int64   `json:"took_ms"`
}

// Report is what came of all checks.
type Report struct {
	Plugin  string   `json:"plugin"`
	Version string   `json:"version"`
	Results []Result `json:"results"`
}

// Count is the number of results with an outcome.
func (r Report) Count(o Outcome) int {
	n := 0
	for _, one := range r.Results {
		if one.Outcome == o {
			n++
		}
	}
	return n
}

// check is one thing that is tried.
type check struct {
	name string
	kind plugin.Kind // that it is about; empty for every plugin
	next string      // advice for an author whose plugin fails it
	run  func(ctx context.Context, b *bench) error
}

// errSkip wraps the reason why a check could not be made.
type errSkip struct{ why string }

func (e errSkip) Error() string { return e.why }

func skip(format string, args ...any) error { return errSkip{fmt.Sprintf(format, args...)} }

// Run makes every check that fits the plugin's kinds. An error means that there was nothing to try.
func Run(ctx context.Context, c Config) (Report, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return Report{}, err
	}
	m, err := plugin.ReadManifest(dir)
	if err != nil {
		return Report{}, err
	}
	f, err := readFile(dir)
	if err != nil {
		return Report{}, err
	}
	checks, err := chosen(m, c.Only)
	if err != nil {
		return Report{}, err
	}
	clean, err := f.Fake.build(ctx, dir)
	if err != nil {
		return Report{}, err
	}
	defer clean()
	k := &kit{config: withDefaults(c), dir: dir, manifest: m, file: f}
	forget, err := k.openStore(ctx)
	if err != nil {
		return Report{}, err
	}
	defer forget()
	return Report{Plugin: m.Name, Version: m.Version, Results: k.all(ctx, checks)}, ctx.Err()
}

func withDefaults(c Config) Config {
	if c.Patience <= 0 {
		c.Patience = 5 * time.Second
	}
	if c.Limit <= 0 {
		c.Limit = max(30*time.Second, 6*c.Patience)
	}
	if c.quiet <= 0 {
		c.quiet = 300 * time.Millisecond
	}
	if c.Parallel <= 0 {
		c.Parallel = min(runtime.NumCPU(), 4)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Done == nil {
		c.Done = func(Result) {}
	}
	return c
}

// Checks lists the names of all checks.
func Checks() []string {
	var names []string
	for _, c := range catalogue() {
		names = append(names, c.name)
	}
	return names
}

func catalogue() []check {
	return slices.Concat(processChecks(), configChecks(), streamChecks(), sendChecks(), toolChecks())
}

// chosen are the checks that fit m, and of those the named ones if any are named.
func chosen(m plugin.Manifest, only []string) ([]check, error) {
	for _, name := range only {
		if !slices.Contains(Checks(), name) {
			return nil, fmt.Errorf("there is no check %q: want one of %s", name, strings.Join(Checks(), ", "))
		}
	}
	return slices.DeleteFunc(catalogue(), func(c check) bool {
		return c.kind != "" && !slices.Contains(m.Kinds, c.kind) || len(only) > 0 && !slices.Contains(only, c.name)
	}), nil
}

// kit is one run over one plugin.
type kit struct {
	config   Config
	dir      string
	manifest plugin.Manifest
	file     file
	values   store.Values // nil when the plugin asks for nothing

	mu sync.Mutex // Config.Done is called by one at a time
}

// all makes the checks, some side by side, and returns their results in their order.
func (k *kit) all(ctx context.Context, checks []check) []Result {
	results := make([]Result, len(checks))
	room := make(chan struct{}, k.config.Parallel)
	var working sync.WaitGroup
	for i, c := range checks {
		room <- struct{}{}
		working.Go(func() {
			defer func() { <-room }()
			results[i] = k.one(ctx, c)
			k.mu.Lock()
			defer k.mu.Unlock()
			k.config.Done(results[i])
		})
	}
	working.Wait()
	return results
}

// one makes one check within its limit.
func (k *kit) one(ctx context.Context, c check) Result {
	began := time.Now()
	late := fmt.Errorf("it did not come to an end within %v", k.config.Limit)
	ctx, cancel := context.WithTimeoutCause(ctx, k.config.Limit, late)
	defer cancel()
	b := &bench{kit: k, check: c.name}
	err := c.run(ctx, b)
	if skipped := (errSkip{}); err != nil && !errors.As(err, &skipped) && b.latest != nil {
		err = b.lastWords(err)
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	b.close()
	r := Result{Check: c.name, Outcome: Pass, TookMS: time.Since(began).Milliseconds()}
	var skipped errSkip
	switch {
	case errors.As(err, &skipped):
		r.Outcome, r.Detail = Skip, skipped.why
	case err != nil:
		r.Outcome, r.Detail, r.Next = Fail, err.Error(), c.next
	}
	return r
}
