package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	start chan string

	mu   sync.Mutex
	last selftest.State
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
func (f *Fleet) StartSelfTest(name, by string) error {
	if _, known := f.spec(name); !known {
		return fmt.Errorf("%w: there is no [sandboxes.%.64s]", machine.ErrNotFound, name)
	}
	if err := f.Available(name); err != nil {
		return err
	}
	t := &f.tests
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.Running {
		return ErrTesting
	}
	t.last = selftest.State{Sandbox: name, By: by, Running: true, Began: time.Now(), Of: len(selftest.ProbesOf(f.chosenEngine()))}
	t.start <- name // has room while none runs
	return nil
}

// selfTesting carries out self-tests until ctx ends.
func (f *Fleet) selfTesting(ctx context.Context) {
	for {
		select {
		case name := <-f.tests.start:
			report, err := f.runSelfTest(ctx, name)
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

func (f *Fleet) runSelfTest(ctx context.Context, name string) (r selftest.Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, selfTestTimeout)
	defer cancel()
	manager := f.sandboxes()
	wanted, known := f.spec(name)
	if manager == nil || !known {
		return r, errLooking
	}
	c := selftest.Config{Dir: f.folders.Workspaces, MountRules: f.mountRules, Progress: f.tests.add}
	if err := selftest.FindPrograms(&c, f.log); err != nil {
		return r, err
	}
	if c.Spec, err = manager.Prepared(ctx, wanted); err != nil {
		return r, err
	}
	c.Driver = f.chosenEngine()
	c.Log = slog.New(slog.DiscardHandler) // the report says which attacks were refused
	suite, err := selftest.New(c)
	if err != nil {
		return r, err
	}
	return suite.Run(ctx)
}

// add takes an outcome of the self-test under way.
func (t *selfTests) add(o selftest.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last.Report.Add(o)
}
