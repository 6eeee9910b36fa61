// Package doctor looks for what is wrong or weak in a Flynn: its configuration, store, models, channels, sandbox, plugins, policies, files
// and clock, and what the running host reports. flynn doctor prints what it finds.
//
// Start with Run. load.go collects what is looked at. Each area has a file with its checks, which run side by side, each with a deadline:
// config.go, store.go, models.go, search.go, channels.go, sandbox.go, plugins.go, policies.go, people.go, files.go and running.go. codes.go lists the
// findings; each has a page in docs/help/doctor. Fix mends what needs no person. The checks call the code that flynn serve uses: the
// package decides nothing about what is accepted.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/internal/fileowner"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// deadline bounds each check.
const deadline = 14 * time.Second

// Finding is one thing that is wrong or weak.
type Finding struct {
	Code Code `json:"code"`
	Area Area `json:"area"`
	// Weak is true for what works, and should be otherwise.
	Weak bool   `json:"weak"`
	What string `json:"what"`
	Why  string `json:"why"`
	// Mend says what to do, Command which command does it. One of them may be empty.
	Mend    string `json:"mend,omitempty"`
	Command string `json:"command,omitempty"`
	Page    string `json:"page"`
	// File and Line are where the configuration says it, Key is the key there. For files with wrong permissions, File is that file.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Key  string `json:"key,omitempty"`
	// Fixable is true if Fix can mend it.
	Fixable bool `json:"fixable"`

	remove uint32 // permissions that Fix takes away from File
}

// Report is what was found.
type Report struct {
	Running  bool      `json:"running"` // a host that answered
	Findings []Finding `json:"findings"`
	// Unexamined names what could not be looked at, and why.
	Unexamined []string `json:"unexamined"`
	// Weaker is what this system guarantees less of than Linux. It is no finding, because nothing mends it.
	Weaker []string `json:"weaker"`
}

// exam is one look at a Flynn. Its methods are safe for concurrent use.
type exam struct {
	Subject
	input
	mu     sync.Mutex
	report Report
	free   func(dir string) (uint64, error) // space on the disk of a folder, in bytes
	system string                           // as in runtime.GOOS
}

// add records a finding; its area, weight, reason and page come from its code.
func (x *exam) add(f Finding) {
	k := kinds()[f.Code]
	f.Area, f.Weak, f.Why, f.Page = k.area, k.weak, k.why, f.Code.Page()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.report.Findings = append(x.report.Findings, f)
}

// at adds a finding about a key of the configuration.
func (x *exam) at(f Finding, key ...string) {
	f.File, f.Line, f.Key = x.Config.Path, x.Config.Line(key...), config.KeyString(key...)
	x.add(f)
}

// unexamined records what could not be looked at.
func (x *exam) unexamined(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.report.Unexamined = append(x.report.Unexamined, fmt.Sprintf(format, args...))
}

// check is one check; it returns soon after the end of ctx.
type check func(ctx context.Context, x *exam)

func checks() []check {
	return []check{
		checkConfig, checkStore, checkModels, checkSearch, checkChannels, checkWebhooks, checkSandbox, checkPlugins, checkPolicies, checkPeople,
		checkFiles, checkHost,
	}
}

// Run looks at a Flynn. Its error says why it cannot look.
func Run(ctx context.Context, s Subject) (Report, error) {
	in := s.load(ctx)
	if in.Config != nil {
		if err := ours(in.Config.Store.Dir); err != nil {
			return Report{}, err
		}
	}
	x := &exam{
		Subject: s, input: in, report: Report{Running: in.Running != nil, Findings: []Finding{}, Unexamined: []string{},
			Weaker: append([]string{}, backend.WeakerThanLinux()...)},
		free: sqlite.Free, system: runtime.GOOS,
	}
	return x.run(ctx), ctx.Err()
}

// ours returns an error for a store of another user. Most of it could not be read, and what the checks leave there, such as the state of a
// plugin, would be out of reach of the flynn that runs on it.
func ours(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return nil // the first start makes it
	}
	if uid, ok := fileowner.Of(info); ok && uid != os.Geteuid() {
		return fmt.Errorf("look at the store in %s: it belongs to the user with the number %d: run it as that user, with: sudo -u '#%d' flynn doctor", dir, uid, uid)
	}
	return nil
}

func (x *exam) run(ctx context.Context) Report {
	if x.Config == nil {
		checkLoading(x)
		x.unexamined("everything else, because the configuration cannot be loaded")
		return x.sorted()
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var wait sync.WaitGroup
	for _, c := range checks() {
		wait.Go(func() { c(ctx, x) })
	}
	wait.Wait()
	return x.sorted()
}

// sorted returns the findings by area, what is wrong before what is weak. A warning about a key that another finding is about is left out.
func (x *exam) sorted() Report {
	r := x.report
	said := map[string]bool{}
	for _, f := range r.Findings {
		if f.Code != ConfigWarning {
			said[f.Key] = true
		}
	}
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.Code == ConfigWarning && f.Key != "" && said[f.Key] })
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(a.Area), rank(b.Area)), compareBool(a.Weak, b.Weak), cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.What, b.What))
	})
	clocks := 0 // several servers say the same about the one clock
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool {
		if f.Code == ClockWrong {
			clocks++
		}
		return f.Code == ClockWrong && clocks > 1
	})
	slices.Sort(r.Unexamined)
	return r
}

func rank(a Area) int { return slices.Index(Areas(), a) }

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// within runs what has no context of its own, and returns false if it has not ended in time.
func within[T any](ctx context.Context, do func() T) (result T, ok bool) {
	done := make(chan T, 1)
	go func() { done <- do() }()
	select {
	case result = <-done:
		return result, true
	case <-ctx.Done():
		return result, false
	}
}
