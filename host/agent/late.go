package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/tool"
)

// When a host starts it finds work before the plugins that provide its tools are up: turns that wait for an approval, messages,
// scheduled runs. Such work waits for its tools. Otherwise a turn would lose the call that it waits for, or continue with fewer tools
// than it began with.

// lookAgain is the interval at which waiting work checks for its tools.
const lookAgain = 50 * time.Millisecond

// lateness is the wait of one item for its tools.
type lateness struct {
	runner *Runner
	scope  string
	since  time.Time // zero before it waits
	names  []string  // all providers that it has waited for
}

// wait returns true when the tools of an agent are there or need not be waited for any longer, and false if ctx ends first.
func (w *lateness) wait(ctx context.Context, agent string) bool {
	for {
		gen, policies := w.runner.cfg.Generations.InForce()
		policies.Release()
		late := gen.Late[agent]
		if len(late) == 0 {
			return true
		}
		w.note(agent, late)
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return false
		}
	}
}

func (w *lateness) note(agent string, late []string) {
	if w.since.IsZero() {
		w.since = w.runner.cfg.Now()
		w.runner.cfg.Log.Info("work waits for tools", "place", w.scope, "agent", agent, "providers", late)
	}
	for _, name := range late {
		if !slices.Contains(w.names, name) {
			w.names = append(w.names, name)
		}
	}
}

// over returns decision log entries about the wait, if there was one.
func (w *lateness) over(gen *Generation) []journal.Decision {
	if w.since.IsZero() {
		return nil
	}
	now := w.runner.cfg.Now()
	d := journal.Decision{At: now, Kind: "wait", Policy: "host", Answer: "waited " + now.Sub(w.since).Round(time.Millisecond).String()}
	missing := slices.DeleteFunc(slices.Clone(w.names), func(name string) bool {
		return slices.ContainsFunc(gen.Registry.List(), func(s tool.Spec) bool { return s.Provider == name })
	})
	d.Reason = "for the tools of " + strings.Join(w.names, ", ")
	log := w.runner.cfg.Log.Info
	if len(missing) > 0 {
		d.Reason += fmt.Sprintf("; goes on without those of %s, which are not there", strings.Join(missing, ", "))
		log = w.runner.cfg.Log.Warn
	}
	log("work goes on after a wait for tools", "place", w.scope, "took", now.Sub(w.since), "providers", w.names, "missing", missing)
	w.since = time.Time{} // report it once
	return []journal.Decision{d}
}
