package policy

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// A module is on trial for its first trialDecisions decisions and for trialTime.
const (
	trialDecisions = 1000
	trialTime      = 10 * time.Minute
	// trialRate is how much higher than its predecessor's the failure rate may be.
	trialRate = 0.05
)

// trial watches a module that has just come into force. Only failures update it, so that successful decisions cost nothing more.
type trial struct {
	fallback string // SHA-256 of the module before it
	after    int64  // failures before its rate counts
	rate     float64
	since    time.Time
	start    int64 // decisions that it had made before the trial
	failures atomic.Int64
	tripped  atomic.Bool
	wake     chan<- struct{}
}

// putOnTrial starts the trial of a new module, if there is another one to go back to.
func (e *Engine) putOnTrial(s *slot, m *Module, fallback string, before *Module) {
	m.trial.Store(nil)
	if s.source.RevertAfter <= 0 || fallback == "" || fallback == m.file || e.cfg.History == nil && before == nil {
		return
	}
	t := &trial{fallback: fallback, after: int64(s.source.RevertAfter), rate: trialRate, since: time.Now(), start: m.decisions(), wake: e.trips}
	if before != nil {
		t.rate += before.failureRate()
	}
	m.trial.Store(t)
}

func (m *Module) decisions() int64 {
	var sum stats
	m.pool.sum(&sum)
	return sum.decisions.Load()
}

func (m *Module) failureRate() float64 {
	n := m.faults.Load()
	return float64(n) / float64(max(m.decisions(), n, 1))
}

// failed counts a failure of the module. Facts that do not fit a frame are not its failure.
func (m *Module) failed(err *Error) {
	if m == nil || err.Class == ClassFacts {
		return
	}
	m.faults.Add(1)
	if t := m.trial.Load(); t != nil {
		t.failed(m)
	}
}

func (t *trial) failed(m *Module) {
	n := t.failures.Add(1)
	if n < t.after {
		return
	}
	decisions := max(m.decisions()-t.start, n)
	if decisions > trialDecisions || time.Since(t.since) > trialTime {
		m.trial.CompareAndSwap(t, nil)
		return
	}
	if float64(n) > t.rate*float64(decisions) && t.tripped.CompareAndSwap(false, true) {
		select {
		case t.wake <- struct{}{}:
		default: // Run is already awake
		}
	}
}

// revert replaces modules that have failed their trial by the previous ones, which are compiled or in the history.
func (e *Engine) revert(ctx context.Context) {
	for _, st := range e.revertAll(ctx) {
		e.cfg.Log.Error("rolled back a policy whose new module failed too often", "policy", st.Name, "path", st.Path,
			"digest", st.Digest, "error", st.Error)
		e.cfg.Events.Publish(st)
	}
}

func (e *Engine) revertAll(ctx context.Context) []Status {
	e.staging.Lock()
	defer e.staging.Unlock()
	if e.closed {
		return nil
	}
	var reverted []*slot
	staged := e.successors()
	for _, s := range staged {
		if t := s.failedTrial(); t != nil && e.goBack(ctx, s, t) {
			reverted = append(reverted, s)
		}
	}
	e.replace(staged, len(reverted) > 0)
	e.tell(ctx, reverted)
	all := make([]Status, len(reverted))
	for i, s := range reverted {
		all[i] = s.status()
	}
	return all
}

// failedTrial returns the trial of the module in force, and ends it, if the module has failed it; otherwise nil.
func (s *slot) failedTrial() *trial {
	if s.module == nil {
		return nil
	}
	t := s.module.trial.Load()
	if t == nil || !t.tripped.Load() {
		return nil
	}
	s.module.trial.Store(nil)
	return t
}

// goBack puts the previous module in force again and reports whether it could.
func (e *Engine) goBack(ctx context.Context, s *slot, t *trial) bool {
	bad, failures, decisions := s.module, t.failures.Load(), max(s.module.decisions()-t.start, t.failures.Load())
	m, err := e.archived(ctx, s, t.fallback)
	if err != nil {
		e.cfg.Log.Error("a policy's new module fails too often, and the previous one is gone", "policy", s.source.Name, "error", err)
		return false
	}
	s.install(m)
	reason := fmt.Sprintf("%d of its first %d decisions failed", failures, decisions)
	s.past.Refused = bad.digest
	s.err = failf(ClassLoad, "the file's module was taken out of force, %s: change the file, or run flynn policy rollback %s --clear",
		reason, s.source.Name)
	s.changed(OutcomeReverted, ByFailures, bad.file, bad.digest, reason)
	return true
}
