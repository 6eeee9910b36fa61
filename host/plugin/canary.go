package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// canary is another version of an instance's plugin that replaces the running one if it works.
//
// If two processes of an instance may run at the same time, the new one is started and made ready beside the old one, which ends once the
// new one is in use. If not, process is nil: the old one is shut down, then the new one starts. In either case the old version comes back
// at once if the new one fails during its trial.
type canary struct {
	version string
	process process
	result  chan error // gets one value
	decided bool       // of the loop alone
}

func newCanary(version string) *canary { return &canary{version: version, result: make(chan error, 1)} }

// next is the version to start; "" without a canary.
func (t *canary) next() string {
	if t == nil {
		return ""
	}
	return t.version
}

func (t *canary) pending() bool { return t != nil && !t.decided }

func (t *canary) decide(err error) {
	t.decided = true
	t.result <- err
}

// proof fires when the version has run long enough.
func (t *canary) proof(after time.Duration) (<-chan time.Time, func() bool) {
	if !t.pending() {
		return nil, func() bool { return true }
	}
	timer := time.NewTimer(after)
	return timer.C, timer.Stop
}

// prove ends a successful trial.
func (sup *supervisor) prove(t *canary) {
	sup.mu.Lock()
	sup.proved = t.version
	sup.mu.Unlock()
	sup.log.Info("plugin version passed its trial", "version", t.version)
	t.decide(nil)
}

// giveUp ends a failed trial. The loop continues with the old version.
func (sup *supervisor) giveUp(t *canary, err error) {
	if err == nil {
		err = errors.New("it was stopped during its trial")
	}
	err = fmt.Errorf("version %s: %s", t.version, sup.text(err.Error()))
	sup.log.Error("rolled back to the previous plugin version", "version", t.version, "error", err)
	sup.update(func(s *Status) { s.LastError = err.Error() })
	t.decide(err)
}

// leaveTo passes the handler on to a ready process: the handler's use of p ends, and p itself ends while its successor runs.
func (sup *supervisor) leaveTo(next *canary, p process, served chan error, leave func()) {
	timeout := time.NewTimer(p.stopTimeout())
	defer timeout.Stop()
	select {
	case err := <-served:
		served <- err
	case <-p.exited():
	case <-next.process.exited():
	case <-timeout.C:
	}
	sup.retired.Go(leave)
}

// pinned is the version that this instance already runs while others of its plugin do not; usually "".
func (sup *supervisor) pinned() string {
	sup.mu.Lock()
	defer sup.mu.Unlock()
	return sup.proved
}

func (sup *supervisor) unpin() {
	sup.mu.Lock()
	defer sup.mu.Unlock()
	sup.proved = ""
}

// try moves the instance to another version and returns when the trial has succeeded, or when the old version is back. beside says that both
// may run at the same time.
func (sup *supervisor) try(ctx context.Context, version string, beside bool) error {
	t := newCanary(version)
	if beside {
		p, err := sup.prepare(ctx, version)
		if err != nil {
			return fmt.Errorf("version %s: %s", version, sup.text(err.Error()))
		}
		t.process = p
	}
	select {
	case sup.canaries <- t:
	case <-ctx.Done():
		t.discard()
		return fmt.Errorf("version %s: %w", version, ctx.Err())
	case <-sup.ended:
		t.discard()
		return nil
	}
	select {
	case err := <-t.result:
		return err
	case <-sup.ended:
		return nil
	}
}

func (t *canary) discard() {
	if t.process != nil {
		t.process.kill()
	}
}

// prepare starts a process of another version beside the running one, and configures it.
func (sup *supervisor) prepare(ctx context.Context, version string) (process, error) {
	p, err := sup.host.start(ctx, sup, launchSpec{version: version, beside: true})
	if err != nil {
		return nil, err
	}
	if err := sup.introduce(ctx, p, func(State, string) {}); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}
