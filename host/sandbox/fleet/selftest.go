package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
)

// selfTestTimeout bounds a self-test.
const selfTestTimeout = 20 * time.Minute

// ErrTesting is the error while a self-test is under way.
var ErrTesting = errors.New("a self-test is under way: wait for its end")

// selfTests runs one self-test at a time.
type selfTests struct {
	start chan wantedTest

	mu   sync.Mutex
	last selftest.State
}

// wantedTest is a self-test to carry out.
type wantedTest struct {
	sandbox string
	only    func(name string) bool // nil: all attacks
}

// SelfTest returns the last self-test, or the one under way with its outcomes so far.
func (f *Fleet) SelfTest() selftest.State {
	t := &f.tests
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.last
	last.Outcomes = append([]selftest.Outcome{}, last.Outcomes...)
	return last
}

// StartSelfTest starts a self-test of the sandbox of that name, which Run carries out: ErrTesting while another one runs, and
// machine.ErrNotFound if there is no such sandbox.
func (f *Fleet) StartSelfTest(ctx context.Context, name, by string) error {
	if _, known := f.spec(name); !known {
		return fmt.Errorf("%w: there is no [sandboxes.%.64s]", machine.ErrNotFound, name)
	}
	if err := f.answers(ctx); err != nil {
		return err
	}
	return f.begin(name, by, nil)
}

// begin starts a self-test of the attacks that only selects.
func (f *Fleet) begin(name, by string, only func(name string) bool) error {
	t := &f.tests
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.Running {
		return ErrTesting
	}
	of := selftest.ProbesOf(f.chosenEngine())
	if only != nil {
		of = slices.DeleteFunc(of, func(p selftest.Probe) bool { return !only(p.Name) })
	}
	t.last = selftest.State{Sandbox: name, By: by, Running: true, Began: time.Now(), Of: len(of)}
	t.start <- wantedTest{name, only} // has room while none runs
	return nil
}

// selfTesting carries out self-tests until ctx ends.
func (f *Fleet) selfTesting(ctx context.Context) {
	for {
		select {
		case wanted := <-f.tests.start:
			report, err := f.runSelfTest(ctx, wanted)
			f.tests.end(report, err)
		case <-ctx.Done():
			return
		}
	}
}

func (t *selfTests) end(r selftest.Report, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last.Running, t.last.Ended, t.last.Report = false, time.Now(), r
	if err != nil {
		t.last.Failure = err.Error()
	}
}

func (f *Fleet) runSelfTest(ctx context.Context, test wantedTest) (r selftest.Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, selfTestTimeout)
	defer cancel()
	manager, err := f.made(ctx)
	if err != nil {
		return r, err
	}
	wanted, known := f.spec(test.sandbox)
	if !known {
		return r, fmt.Errorf("%w: there is no [sandboxes.%.64s] any more", machine.ErrNotFound, test.sandbox)
	}
	e := f.chosenEngine()
	c := selftest.Config{Driver: Attacked(e), Dir: f.folders.Workspaces, MountRules: f.mountRules, Only: test.only, Progress: f.tests.add}
	if err := selftest.FindPrograms(&c, f.log); err != nil {
		return r, err
	}
	if c.Spec, err = manager.Prepared(ctx, wanted); err != nil {
		return r, err
	}
	c.Log = slog.New(slog.DiscardHandler) // the report says which attacks were refused
	suite, err := selftest.New(c)
	if err != nil {
		return r, err
	}
	if r, err = suite.Run(ctx); err != nil {
		return r, err
	}
	return r, Record(ctx, e, wanted, r)
}

// add takes an outcome of the self-test under way.
func (t *selfTests) add(o selftest.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last.Report.Add(o)
}
