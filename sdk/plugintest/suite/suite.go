// Package suite checks whether a plugin fulfils the contract of sdk/proto, in whatever language it is written.
//
// Start with Run. Each check starts the plugin, tests one thing and ends it, so that no check sees what another one left. A check passes,
// fails with what is wrong and what to do next, or is skipped with the reason: what could not be checked never counts as passed. Besides
// ordinary use the checks send what a later host may send (fields, values and frames that the plugin cannot know) and what a broken one
// might.
//
// A Bench starts the plugin: `flynn plugin dev conform` has one that starts a process, plugintest.Conform one that serves a Go plugin within
// its test. The checks for plugins of every kind are in process.go and configure.go. Each kind has its own files, and a line in catalogue.
//
// The suite checks only the plugin's side of the contract. It cannot see whether the plugin uses the network before Configure, and it does
// not try to break out of a plugin's jail: the tests of host/plugin do.
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

// Plugin is a plugin to check.
type Plugin struct {
	Name, Version string
	Kinds         []pluginv1.Kind
	Settings      map[string]any    // with which it works, besides those of the fake platform
	Secrets       map[string]string // with which it works
	Optional      []string          // secrets that it does not need
	Named         []string          // secrets that it may be given
	Calls         []Call            // of its tools
	Container     Container         // that its driver can make
	Gone          map[string]any    // settings with which no engine answers its driver
	// Redelivers is set if the platform delivers again what was not acknowledged, as most do.
	Redelivers bool
	// Together is set if it cannot send before it may receive with these settings, although Describe says that it can.
	Together bool
	// StopTimeout is how long it may take to answer Shutdown; 20 s by default.
	StopTimeout time.Duration
	// Source names the file where settings and calls are written, for advice.
	Source string
	// Bench returns the environment for one check.
	Bench func(check string) (Bench, error)
}

// Call is a tool call that succeeds.
type Call struct {
	Tool      string         `toml:"tool"`
	Arguments map[string]any `toml:"arguments"`
}

// Container is a container that a driver can make here, and that lasts longer than a check.
type Container struct {
	Image      string   `toml:"image"`
	Entrypoint []string `toml:"entrypoint"`
}

// Bench starts the plugin for one check. The processes of a check share what they leave, such as the state folder.
type Bench interface {
	// Start starts a process until it answers calls. A bare one gets none of the operator's environment.
	Start(ctx context.Context, bare bool) (Process, error)
	// Platform starts the fake platform, which reports what people see. The platform is nil if the plugin has none.
	Platform(ctx context.Context, report func(fake.Report)) (fake.Ready, fake.Platform, error)
	// Close removes what the bench has created. Processes and platform are closed before.
	Close()
}

// Process is one process of the plugin.
type Process interface {
	Conn() grpc.ClientConnInterface
	// Admit returns the arguments of Configure for calls to the host, and StateDir the state folder; both may be empty.
	Admit() (endpoint, token string)
	StateDir() string
	HangUp() // closes standard input
	Kill()
	// Exited waits for the process to end by itself and reports whether it did in time. Ended returns how it ended; it is nil before.
	Exited(within time.Duration) bool
	Ended() error
	Close()
}

// Config configures the checks. The zero value works.
type Config struct {
	// Limit bounds each check; six times Patience, but at least 30 s, by default.
	Limit time.Duration
	// Patience is how long a check waits for what a working plugin does at once, such as delivering a message; 5 s by default.
	Patience time.Duration
	// Slack is added to the limits of the contract, such as the second for the plugin's end, for a busy machine; 0 by default.
	Slack time.Duration
	// Quiet is how long a check waits for what should not happen; 300 ms by default.
	Quiet time.Duration
	// Parallel is how many checks run at the same time; by default the number of processors, at most 4.
	Parallel int
	// Only names the checks to run, all by default; Without names those to leave out.
	Only, Without []string
	// More are checks besides those of the suite.
	More []Check
	// Done is called with each result, one at a time.
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

// Count returns the number of results with an outcome.
func (r Report) Count(o Outcome) int {
	n := 0
	for _, one := range r.Results {
		if one.Outcome == o {
			n++
		}
	}
	return n
}

// Check is a single check.
type Check struct {
	Name string
	Kind pluginv1.Kind // the kind that it is about; 0 for every plugin
	Next string        // advice for an author whose plugin fails it
	Run  func(t *T)
}

// catalogue lists the checks: those for every plugin, then those for each kind.
func catalogue() []Check {
	all := slices.Concat(processChecks(), configureChecks())
	for _, k := range []struct {
		kind   pluginv1.Kind
		checks []Check
	}{
		{pluginv1.Kind_KIND_CHANNEL, slices.Concat(receiveChecks(), leaseChecks(), sendChecks(), mediaChecks())},
		{pluginv1.Kind_KIND_TOOLS, toolChecks()},
		{pluginv1.Kind_KIND_SANDBOX, sandboxChecks()},
	} {
		for _, c := range k.checks {
			c.Kind = k.kind
			all = append(all, c)
		}
	}
	return all
}

// Run executes every check for the plugin's kinds. An error means that a check does not exist, or that ctx has ended.
func Run(ctx context.Context, p Plugin, c Config) (Report, error) {
	checks := append(catalogue(), c.More...)
	for _, name := range c.Only {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == name }) {
			return Report{}, fmt.Errorf("there is no check %q: choose one of %s", name, strings.Join(names(checks), ", "))
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

// check executes one check within its limit.
func check(ctx context.Context, p Plugin, c Config, one Check) Result {
	began := time.Now()
	late := fmt.Errorf("it did not end within %v", c.Limit)
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
