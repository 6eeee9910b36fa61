// Package suite checks whether a plugin keeps to the contract of sdk/proto, in whatever language it is written.
//
// Start with Run. Each check starts the plugin, does one thing to it and ends it, so that no check sees what another one left. A check
// passes, fails with what is wrong and what to do next, or is skipped with the reason: what could not be checked never counts as a pass.
// Besides ordinary use the checks send what a later host may send (fields, values and frames that the plugin cannot know) and what a
// broken one might.
//
// A Bench starts the plugin: `flynn plugin conform` has one that starts a process, plugintest.Conform one that serves a plugin in Go within
// its test. The checks that hold for plugins of every kind are in process.go and configure.go. A kind has its own in files of its own, and a line in
// catalogue.
//
// The suite judges the plugin's side of the contract alone. It cannot see whether the plugin talks to the network before Configure,
// and it does not try to break what contains a plugin: that is for the tests of host/plugin.
package suite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Plugin is what the suite checks.
type Plugin struct {
	Name, Version string
	Kinds         []pluginv1.Kind
	Settings      map[string]any    // with which it works, besides those of the fake platform
	Secrets       map[string]string // likewise
	Optional      []string          // secrets without which it works as well
	Named         []string          // the secrets that it may be given
	Calls         []Call            // of its tools
	// Redelivers: the platform delivers again what was not acknowledged, as most do.
	Redelivers bool
	// StopTimeout is how long it may take to answer Shutdown; 20 s.
	StopTimeout time.Duration
	// Source names the place where settings and calls are written, for advice.
	Source string
	// Bench makes the place in which one check works.
	Bench func(check string) (Bench, error)
}

// Call is a tool call that succeeds.
type Call struct {
	Tool      string         `toml:"tool"`
	Arguments map[string]any `toml:"arguments"`
}

// Bench starts the plugin for one check. What one process leaves behind, such as its state folder, the next one of the check finds.
type Bench interface {
	// Start starts a process up to where it answers calls. A bare one gets none of the operator's environment.
	Start(ctx context.Context, bare bool) (Process, error)
	// Platform starts the fake platform, which reports what people see. The platform is nil where the plugin has none.
	Platform(ctx context.Context, report func(fake.Report)) (fake.Ready, fake.Platform, error)
	// Close removes what the bench has made. Processes and platform are closed before.
	Close()
}

// Process is one process of the plugin.
type Process interface {
	Conn() grpc.ClientConnInterface
	// Admit returns what Configure hands over for calls to the host, and StateDir the folder; both may be empty.
	Admit() (endpoint, token string)
	StateDir() string
	HangUp() // closes the standard input
	Kill()
	// Exited waits for the process to end by itself and reports whether it did in time. Ended says how it ended; it is nil before.
	Exited(within time.Duration) bool
	Ended() error
	Close()
}

// Config says how the checks are made. The zero value works.
type Config struct {
	// Limit bounds each check; six times Patience, at least 30 s.
	Limit time.Duration
	// Patience is how long a check waits for what a working plugin does at once, such as delivering a message; 5 s.
	Patience time.Duration
	// Slack is what a plugin gets beyond the limits of the contract, such as the second for its end, where the machine has other work;
	// nothing.
	Slack time.Duration
	// Quiet is how long a check waits for what should not happen; 300 ms.
	Quiet time.Duration
	// Parallel is how many checks run side by side; as many as there are processors, at most 4.
	Parallel int
	// Only names the checks to make; all. Without names those that are left out.
	Only, Without []string
	// More are checks besides those of the suite.
	More []Check
	// Done is called with each result as it comes, one at a time.
	Done func(Result)
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

// Report has the results of all checks.
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

// Check is one thing that is checked.
type Check struct {
	Name string
	Kind pluginv1.Kind // that it is about; 0 for every plugin
	Next string        // advice for an author whose plugin fails it
	Run  func(t *T)
}

// catalogue lists the checks: those of every plugin, then those of each kind.
func catalogue() []Check {
	all := slices.Concat(processChecks(), configureChecks())
	for _, k := range []struct {
		kind   pluginv1.Kind
		checks []Check
	}{
		{pluginv1.Kind_KIND_CHANNEL, slices.Concat(receiveChecks(), sendChecks(), mediaChecks())},
		{pluginv1.Kind_KIND_TOOLS, toolChecks()},
	} {
		for _, c := range k.checks {
			c.Kind = k.kind
			all = append(all, c)
		}
	}
	return all
}

// Run makes every check that fits the plugin's kinds. An error means that there is no such check, or that ctx has ended.
func Run(ctx context.Context, p Plugin, c Config) (Report, error) {
	checks := append(catalogue(), c.More...)
	for _, name := range c.Only {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == name }) {
			return Report{}, fmt.Errorf("there is no check %q: want one of %s", name, strings.Join(names(checks), ", "))
		}
	}
	checks = slices.DeleteFunc(checks, func(one Check) bool {
		return one.Kind != 0 && !slices.Contains(p.Kinds, one.Kind) || len(c.Only) > 0 && !slices.Contains(c.Only, one.Name) ||
			slices.Contains(c.Without, one.Name)
	})
	r := Report{Plugin: p.Name, Version: p.Version, Results: make([]Result, len(checks))}
	c = withDefaults(c)
	if p.StopTimeout <= 0 {
		p.StopTimeout = 20 * time.Second
	}
	var working sync.WaitGroup
	var telling sync.Mutex
	room := make(chan struct{}, c.Parallel)
	for i, one := range checks {
		room <- struct{}{}
		working.Go(func() {
			defer func() { <-room }()
			r.Results[i] = check(ctx, p, c, one)
			telling.Lock()
			defer telling.Unlock()
			c.Done(r.Results[i])
		})
	}
	working.Wait()
	return r, ctx.Err()
}

func names(checks []Check) (list []string) {
	for _, c := range checks {
		list = append(list, c.Name)
	}
	return list
}

func withDefaults(c Config) Config {
	if c.Patience <= 0 {
		c.Patience = 5 * time.Second
	}
	if c.Limit <= 0 {
		c.Limit = max(30*time.Second, 6*c.Patience)
	}
	if c.Quiet <= 0 {
		c.Quiet = 300 * time.Millisecond
	}
	if c.Parallel <= 0 {
		c.Parallel = min(runtime.NumCPU(), 4)
	}
	if c.Done == nil {
		c.Done = func(Result) {}
	}
	return c
}

// check makes one check within its limit.
func check(ctx context.Context, p Plugin, c Config, one Check) Result {
	began := time.Now()
	late := fmt.Errorf("it did not come to an end within %v", c.Limit)
	ctx, cancel := context.WithTimeoutCause(ctx, c.Limit, late)
	defer cancel()
	err := (&T{ctx: ctx, plugin: p, config: c, check: one.Name}).run(one)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	r := Result{Check: one.Name, Outcome: Pass, TookMS: time.Since(began).Milliseconds()}
	if skipped, ok := errors.AsType[errSkip](err); ok {
		r.Outcome, r.Detail = Skip, skipped.why
	} else if err != nil {
		r.Outcome, r.Detail, r.Next = Fail, err.Error(), one.Next
	}
	return r
}
