// Package doctor looks for what is wrong or weak in a Flynn: its configuration, store, models, channels, sandbox, plugins, policies and
// files. flynn doctor prints what it finds.
//
// Start with Run: every check is a function of the subject's file (config.go, store.go, models.go, sandbox.go, running.go), all run side
// by side, each with a deadline. codes.go lists the findings; docs/help/doctor.md has a section for each. Fix does what is safe to do
// without a person. The package starts no plugin and asks no model for an answer.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/observe/hostlog"
	"github.com/flynnhost/flynn/host/policy"
)

// deadline bounds each check.
const deadline = 8 * time.Second

// Input is what a Flynn consists of.
type Input struct {
	// Config is the configuration as flynn serve would load it, LoadError why it cannot be loaded; then Config is nil.
	Config    *config.Config
	LoadError error
	Sources   []policy.Source // the policies of Config
	// Senders are rules that rest on senders who are not proved, Weak the other warnings of flynn config check.
	Senders, Weak []config.Error
	// Running is the host that answers at the gateway; nil if none does.
	Running *Running
}

// Running is what the running host reports.
type Running struct {
	Status  gateway.Status
	Repeats []hostlog.Repeat
}

// Finding is one thing that is wrong or weak.
type Finding struct {
	Code Code `json:"code"`
	// Weak is true for what works, and should be otherwise.
	Weak bool   `json:"weak"`
	What string `json:"what"`
	Why  string `json:"why"`
	// Mend is the command or the edit that mends it.
	Mend string `json:"mend"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Fixable is true if Fix can mend it.
	Fixable bool `json:"fixable"`

	mode os.FileMode // that Fix gives to File
}

// find returns a finding with the reason of its code.
func find(code Code, mend, what string, args ...any) Finding {
	k := kinds()[code]
	return Finding{Code: code, Weak: k.weak, Why: k.why, Mend: mend, What: fmt.Sprintf(what, args...)}
}

// at adds the place of a key in the configuration.
func (f Finding) at(c *config.Config, key ...string) Finding {
	f.File, f.Line = c.Path, c.Line(key...)
	return f
}

// check is one check; it returns when ctx ends.
type check func(ctx context.Context, in Input) []Finding

func checks() []check {
	return []check{checkConfig, checkPlugins, checkPolicies, checkEngine, checkStore, checkFiles, checkModels, checkWeak, checkRunning}
}

// Run returns all findings, those that are wrong first.
func Run(ctx context.Context, in Input) []Finding {
	if in.Config == nil {
		return sorted(loadFindings(in.LoadError))
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	var all []Finding
	for _, c := range checks() {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, deadline)
			defer cancel()
			found := c(ctx, in)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, found...)
		})
	}
	wait.Wait()
	return sorted(all)
}

func sorted(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int {
		if a.Weak != b.Weak {
			if b.Weak {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Line, b.Line), cmp.Compare(a.What, b.What))
	})
	return all
}

// Fix mends a finding if that is safe: it takes the rights of others from files and folders of the store and from secrets.
func Fix(f Finding) error {
	if !f.Fixable {
		return nil
	}
	info, err := os.Lstat(f.File)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return fmt.Errorf("%s is neither a file nor a folder: look at it yourself", f.File)
	}
	return os.Chmod(f.File, f.mode)
}
