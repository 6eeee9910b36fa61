package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/fleet/drivers"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// proved is an engine that is not used before a self-test has passed; *drivers.Driver implements it.
type proved interface {
	Proved(ctx context.Context, r drivers.Reliance) error
	Record(ctx context.Context, r drivers.Reliance, failed []drivers.Row) error
	Untested() drivers.Untested
}

var _ proved = (*drivers.Driver)(nil)

// errTesting is the reason to wait for a self-test.
var errTesting = errors.New("the driver is being tested before its first use")

// bySelf names the host itself as the one who started a self-test.
const bySelf = "flynn"

// gate returns why the engine may not be used for the configured sandboxes, or nil. It starts the self-test of the first sandbox on whose
// reliance there is none yet.
func (f *Fleet) gate(ctx context.Context, e Engine) error {
	name, err := unproved(ctx, e, f.setup.Load().specs)
	if errors.Is(err, drivers.ErrUntested) {
		return f.testFirst(name)
	}
	return err
}

// Proved returns why an engine may not be used for some of the sandboxes, or nil. The error wraps drivers.ErrUntested or drivers.ErrNotHeld.
func Proved(ctx context.Context, e Engine, all *specs.Set) error {
	_, err := unproved(ctx, e, all)
	return err
}

// unproved returns the first sandbox for which an engine may not be used, and why; of two reasons that a self-test showed something is first.
func unproved(ctx context.Context, e Engine, all *specs.Set) (name string, err error) {
	p, is := e.(proved)
	if !is {
		return "", nil
	}
	for _, one := range all.Names() {
		s, _ := all.Named(one)
		switch why := p.Proved(ctx, drivers.RelianceOn(s)); {
		case errors.Is(why, drivers.ErrUntested) && err == nil:
			name, err = one, why
		case why != nil && !errors.Is(why, drivers.ErrUntested):
			return one, why
		}
	}
	return name, err
}

// testFirst starts the self-test of a sandbox unless one is under way or could not be completed, and returns the reason to wait.
func (f *Fleet) testFirst(name string) error {
	last := f.SelfTest()
	switch {
	case last.Running:
		return fmt.Errorf("%w: %w: %d of %d attacks so far", machine.ErrUnavailable, errTesting, len(last.Outcomes), last.Of)
	case last.By == bySelf && last.Failure != "":
		return fmt.Errorf("%w: the self-test before the driver's first use could not be completed: %s. Mend that, and run flynn sandbox selftest",
			machine.ErrUnavailable, last.Failure)
	}
	if err := f.begin(name, bySelf, selftest.OfDriver); err != nil {
		return err
	}
	f.log.Info("testing the driver of sandboxes before its first use", "sandbox", name)
	return f.testFirst(name)
}

// Attacked returns the driver by which a self-test makes sandboxes on an engine: it is used untested there, and nowhere else.
func Attacked(e Engine) driver.Driver {
	if p, is := e.(proved); is {
		return p.Untested()
	}
	return e
}

// Record keeps the outcome of a whole self-test, if the engine needs one before it is used.
func Record(ctx context.Context, e Engine, s spec.Spec, r selftest.Report) error {
	p, is := e.(proved)
	if !is {
		return nil
	}
	var failed []drivers.Row
	for _, o := range r.Outcomes {
		if o.Status == selftest.Fail && selftest.OfDriver(o.Name) {
			failed = append(failed, drivers.Row{Name: o.Name, Detail: o.Detail, Setting: o.Setting})
		}
	}
	return p.Record(ctx, drivers.RelianceOn(s), failed)
}
