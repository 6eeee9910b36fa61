package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// trial is another version of an instance's plugin that is to take over from the one at work.
//
// Where two processes of an instance may be at work at a time, the new one is started beside the old one and comes along ready; the old
// one ends once the new one is in use. Where they may not, process is nil: the old one ends in order, then the new one
// starts. In either case the version before comes back at once when the new one fails before it has proved itself.
type trial struct {
	version string
	process process
	result  chan error // gets one value
	decided bool       // of the loop alone
}

func newTrial(version string) *trial { return &trial{version: version, result: make(chan error, 1)} }

// order is the version to start; "" without a trial.
func (t *trial) order() string {
	if t == nil {
		return ""
	}
	return t.version
}

func (t *trial) pending() bool { return t != nil && !t.decided }

func (t *trial) decide(err error) {
	t.decided = true
	t.result <- err
}

// proof fires when the version has lived long enough.
func (t *trial) proof(after time.Duration) (<-chan time.Time, func() bool) {
	if !t.pending() {
		return nil, func() bool { return true }
	}
	timer := time.NewTimer(after)
	return timer.C, timer.Stop
}

// prove ends a trial well.
func (u *unit) prove(t *trial) {
	u.mu.Lock()
	u.proved = t.version
	u.mu.Unlock()
	u.log.Info("plugin version passed its trial", "version", t.version)
	t.decide(nil)
}

// giveUp ends a trial badly. The loop goes on with the version before.
func (u *unit) giveUp(t *trial, err error) {
	if err == nil {
		err = errors.New("it was stopped before it had proved itself")
	}
	err = fmt.Errorf("version %s: %s", t.version, u.text(err.Error()))
	u.log.Error("rolled back to the previous plugin version", "version", t.version, "error", err)
	u.update(func(s *Status) { s.LastError = err.Error() })
	t.decide(err)
}

// leaveTo hands the handler over to a process that is ready: the handler's use of p ends, and p itself ends beside its successor.
func (u *unit) leaveTo(next *trial, p process, served chan error, leave func()) {
	timeout := time.NewTimer(p.stopTimeout())
	defer timeout.Stop()
	select {
	case err := <-served:
		served <- err
	case <-p.exited():
	case <-next.process.exited():
	case <-timeout.C:
	}
	u.retired.Go(leave)
}

// pinned is the version that the instance runs though its plugin does not yet; "" usually.
func (u *unit) pinned() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.proved
}

func (u *unit) unpin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.proved = ""
}

// try moves the instance to another version and returns when that has proved itself, or when the one before is back. beside says that
// both may be at work at a time.
func (u *unit) try(ctx context.Context, version string, beside bool) error {
	t := newTrial(version)
	if beside {
		p, err := u.prepare(ctx, version)
		if err != nil {
			return fmt.Errorf("version %s: %s", version, u.text(err.Error()))
		}
		t.process = p
	}
	select {
	case u.trials <- t:
	case <-ctx.Done():
		t.discard()
		return fmt.Errorf("version %s: %w", version, ctx.Err())
	case <-u.ended:
		t.discard()
		return nil
	}
	select {
	case err := <-t.result:
		return err
	case <-u.ended:
		return nil
	}
}

func (t *trial) discard() {
	if t.process != nil {
		t.process.kill()
	}
}

// prepare starts a process of another version beside the one at work, and configures it.
func (u *unit) prepare(ctx context.Context, version string) (process, error) {
	p, err := u.host.start(ctx, u, order{version: version, beside: true})
	if err != nil {
		return nil, err
	}
	if err := u.introduce(ctx, p, func(State, string) {}); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}
