package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
)

// pastLog is one in memory, which outlives engines.
type pastLog struct {
	mu      sync.Mutex
	kept    map[string][]byte
	changes []Change
	full    bool
}

func (l *pastLog) Keep(_ context.Context, c Candidate) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full {
		return errors.New("the disk is full")
	}
	if l.kept == nil {
		l.kept = map[string][]byte{}
	}
	l.kept[c.File()] = slices.Clone(c.Wasm)
	return nil
}

func (l *pastLog) Fetch(_ context.Context, file string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wasm, ok := l.kept[file]; ok {
		return wasm, nil
	}
	return nil, errors.New("not in the archive")
}

func (l *pastLog) Record(_ context.Context, c Change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes = append(l.changes, c)
	return nil
}

func (l *pastLog) Recall(_ context.Context, name string) (Past, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var p Past
	for _, c := range l.changes {
		if c.Policy == name {
			p = c.Leaves()
		}
	}
	return p, nil
}

// story is what the pastLog was told, in short.
func (l *pastLog) story() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var words []string
	for _, c := range l.changes {
		words = append(words, fmt.Sprintf("%s by %s", c.Outcome, c.By))
	}
	return strings.Join(words, ", ")
}

// opened is an engine over the pastLog; the gate refuses the rules that are named.
func opened(t *testing.T, l *pastLog, source Source, refused ...uint32) *Engine {
	t.Helper()
	e, err := New(t.Context(), Config{Sources: []Source{source}, History: l, Gate: GateFunc(func(ctx context.Context, c Candidate) error {
		if _, r := c.Tool(ctx, toolFacts()); slices.Contains(refused, r.Rule) && r.Error == "" {
			return fmt.Errorf("rule %d is refused", r.Rule)
		}
		return nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// decides asks the chain once and fails unless the rule decided.
func decides(t *testing.T, e *Engine, rule uint32) {
	t.Helper()
	s := e.Pin()
	defer s.Release()
	if _, r := s.Tool(t.Context(), toolFacts()); r[0].Rule != rule || r[0].Error != "" {
		t.Errorf("rule %d decides (error %q), want %d", r[0].Rule, r[0].Error, rule)
	}
}

func trapping() []byte { return w.Policy(1).Hook("flynn_tool", "", w.Op(0)) }

func trialOf(path string) Source {
	s := tool("p", path)
	s.RevertAfter = 5
	return s
}

func TestRollbackHoldsUntilTheFileChanges(t *testing.T) {
	path, l := write(t, version(1, 1)), &pastLog{}
	first := fileDigest(version(1, 1))
	e := opened(t, l, tool("p", path))
	replace(t, path, version(2, 1))
	e.Refresh(t.Context())
	decides(t, e, 2)
	st, err := e.Rollback(t.Context(), "p", chosen(first), ByCommand)
	if err != nil || st.State != StatePinned || st.Pinned != first || st.File != first {
		t.Fatalf("status %+v, %v", st, err)
	}
	decides(t, e, 1)
	e.Refresh(t.Context())
	decides(t, e, 1)

	again := opened(t, l, tool("p", path))
	decides(t, again, 1)
	if st := again.Status()[0]; st.State != StatePinned {
		t.Errorf("after a restart %+v", st)
	}
	replace(t, path, version(3, 1))
	again.Refresh(t.Context())
	decides(t, again, 3)
	if want := "in force by start, in force by file, rolled back by command, in force by file"; l.story() != want {
		t.Errorf("history is %s\nwant %s", l.story(), want)
	}
}

func TestRollbackIsCleared(t *testing.T) {
	path, l := write(t, version(1, 1)), &pastLog{}
	e := opened(t, l, tool("p", path))
	replace(t, path, version(2, 1))
	e.Refresh(t.Context())
	if _, err := e.Rollback(t.Context(), "p", chosen(fileDigest(version(1, 1))), ByCommand); err != nil {
		t.Fatal(err)
	}
	decides(t, e, 1)
	if st, err := e.Clear(t.Context(), "p", ByCommand); err != nil || st.State != StateRunning || st.Pinned != "" {
		t.Fatalf("status %+v, %v", st, err)
	}
	decides(t, e, 2)
	if _, err := e.Clear(t.Context(), "p", ByCommand); err == nil {
		t.Error("what is not rolled back was cleared")
	}
	for name, file := range map[string]string{"p": fileDigest([]byte("unknown")), "q": fileDigest(version(1, 1))} {
		if _, err := e.Rollback(t.Context(), name, chosen(file), ByCommand); err == nil {
			t.Errorf("policy %s went back to %s", name, file)
		}
	}
	decides(t, e, 2)
}

func TestRollbackOutlivesOtherDataAndALostFile(t *testing.T) {
	path, l := write(t, version(1, 1)), &pastLog{}
	source := tool("p", path)
	e := opened(t, l, source)
	replace(t, path, version(2, 1))
	e.Refresh(t.Context())
	if _, err := e.Rollback(t.Context(), "p", chosen(fileDigest(version(1, 1))), ByCommand); err != nil {
		t.Fatal(err)
	}
	source.Data = map[string]string{"k": "v"}
	if err := e.Configure(t.Context(), []Source{source}); err != nil {
		t.Fatal(err)
	}
	decides(t, e, 1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	e.Refresh(t.Context())
	decides(t, e, 1)
}

func TestRefusedFileLeavesWhatWasInForceOverARestart(t *testing.T) {
	path, l := write(t, version(1, 1)), &pastLog{}
	e := opened(t, l, tool("p", path), 2)
	replace(t, path, version(2, 1))
	e.Refresh(t.Context())
	decides(t, e, 1)
	again := opened(t, l, tool("p", path), 2)
	decides(t, again, 1)
	if st := again.Status()[0]; st.State != StateStale || !strings.Contains(st.Error, "rule 2 is refused") {
		t.Errorf("after a restart %+v", st)
	}
	// Without a past it fails closed.
	if st := opened(t, &pastLog{}, tool("p", path), 2).Status()[0]; st.State != StateFailing {
		t.Errorf("without a past %+v", st)
	}
}

func TestWhatIsProvenIsNotProvenAgainAtTheStart(t *testing.T) {
	path, l := write(t, version(1, 1)), &pastLog{}
	opened(t, l, tool("p", path))
	e := opened(t, l, tool("p", path), 1) // the gate would refuse it now
	decides(t, e, 1)
}

func TestModuleThatCannotBeKeptIsNotInForce(t *testing.T) {
	path, l := write(t, version(1, 1)), &pastLog{}
	e := opened(t, l, tool("p", path))
	l.full = true
	replace(t, path, version(2, 1))
	e.Refresh(t.Context())
	decides(t, e, 1)
	if st := e.Status()[0]; !strings.Contains(st.Error, "disk is full") {
		t.Errorf("status %+v", st)
	}
}

// fail asks until the policy has failed n times.
func fail(t *testing.T, e *Engine, n int) {
	t.Helper()
	s := e.Pin()
	defer s.Release()
	for range n {
		if got, r := s.Tool(t.Context(), toolFacts()); r[0].Error == "" || !got.Deny {
			t.Fatalf("no failure, or one that allows: %+v", r[0])
		}
	}
}

func TestModuleThatFailsIsTakenOutOfForce(t *testing.T) {
	path, l := write(t, version(1, 1)), &pastLog{}
	e := opened(t, l, trialOf(path))
	replace(t, path, trapping())
	e.Refresh(t.Context())
	turn := e.Pin() // a turn keeps what it began with
	defer turn.Release()
	fail(t, e, 4)
	e.revert(t.Context())
	fail(t, e, 1)
	select {
	case <-e.trips:
	default:
		t.Fatal("the fifth failure wakes nobody")
	}
	e.revert(t.Context())
	decides(t, e, 1)
	if _, r := turn.Tool(t.Context(), toolFacts()); r[0].Error == "" {
		t.Error("the turn lost its generation")
	}
	if st := e.Status()[0]; st.State != StateStale || !strings.Contains(st.Error, "5 of its first 5 decisions failed") {
		t.Errorf("status %+v", st)
	}
	e.Refresh(t.Context())
	decides(t, e, 1)

	again := opened(t, l, trialOf(path))
	decides(t, again, 1)
	if st := again.Status()[0]; st.State != StateStale || !strings.Contains(st.Error, "failed too often") {
		t.Errorf("after a restart %+v", st)
	}
	replace(t, path, version(3, 1))
	again.Refresh(t.Context())
	decides(t, again, 3)
	if want := "in force by start, in force by file, reverted by failures, in force by file"; l.story() != want {
		t.Errorf("history is %s\nwant %s", l.story(), want)
	}
}

func TestModuleThatFailsAfterARestartIsTakenOutOfForce(t *testing.T) {
	path, l := write(t, version(1, 1)), &pastLog{}
	opened(t, l, trialOf(path))
	replace(t, path, trapping())
	e := opened(t, l, trialOf(path)) // it came while nobody looked; what was before is in the archive only
	fail(t, e, 5)
	e.revert(t.Context())
	decides(t, e, 1)
	if _, err := e.Clear(t.Context(), "p", ByCommand); err != nil {
		t.Fatal(err)
	}
	fail(t, e, 1)
}

func TestRunRevertsByItself(t *testing.T) {
	path := write(t, version(1, 1))
	e, swaps := watching(t, trialOf(path))
	replace(t, path, trapping())
	next(t, swaps)
	fail(t, e, 5)
	if st := next(t, swaps); st.State != StateStale || !strings.Contains(st.Error, "taken out of force") {
		t.Errorf("status %+v", st)
	}
	decides(t, e, 1)
}

func TestTrialCountsShares(t *testing.T) {
	for _, c := range []struct {
		name                string
		rate                float64
		decisions, failures int64
		want                bool
	}{
		{"too few failures", trialRate, 4, 4, false},
		{"all fail", trialRate, 5, 5, true},
		{"one in twenty", trialRate, 100, 5, false},
		{"more than one in twenty", trialRate, 99, 5, true},
		{"no more than before", trialRate + 0.5, 100, 55, false},
		{"the trial is over", trialRate, trialDecisions + 1, 500, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, version(1, 1))
			m, err := Open(t.Context(), tool("p", path))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			tr := &trial{after: 5, rate: c.rate, since: time.Now(), start: m.decisions() - c.decisions, wake: make(chan struct{}, 1)}
			m.trial.Store(tr)
			tr.failures.Store(c.failures - 1)
			m.failed(failf(ClassFacts, "not its fault"))
			m.failed(failf(ClassTrap, "its fault"))
			if got := tr.tripped.Load(); got != c.want {
				t.Errorf("tripped %v, want %v", got, c.want)
			}
		})
	}
}

func TestRemovedPolicyHasNoPast(t *testing.T) {
	path, l := write(t, version(1, 1)), &pastLog{}
	e := opened(t, l, tool("p", path))
	if err := e.Configure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	p, _ := l.Recall(t.Context(), "p")
	if got := cmp.Or(p.File, p.Digest, p.Refused, p.Pin.File); got != "" {
		t.Errorf("past is %+v", p)
	}
	if want := "in force by start, removed by configuration"; l.story() != want {
		t.Errorf("history is %s\nwant %s", l.story(), want)
	}
}

// chosen is a choice without a question.
func chosen(file string) func() (string, error) { return func() (string, error) { return file, nil } }
