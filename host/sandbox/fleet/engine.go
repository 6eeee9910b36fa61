package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/fleet/drivers"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// checkEvery is the interval between checks of an engine.
const checkEvery = 5 * time.Second

const (
	// tidyTimeout bounds the removal of what earlier hosts left, for which new sandboxes wait. The rest is removed later.
	tidyTimeout = time.Minute
	// settleTimeout is how long a stopping host waits for what it has begun on the engine, before it removes the containers.
	settleTimeout = 10 * time.Second
	// endTimeout bounds both when the host stops.
	endTimeout = 30 * time.Second
)

// ErrOff is the error of every sandbox while [sandbox] is not enabled.
var ErrOff = fmt.Errorf("%w: [sandbox] is not enabled", machine.ErrUnavailable)

// errLooking is the state before the first check of the engine.
var errLooking = fmt.Errorf("%w: the engine was not checked yet", machine.ErrUnavailable)

// Run watches the engine until ctx ends, then removes the containers. If [sandbox] is not enabled, it only waits.
func (f *Fleet) Run(ctx context.Context) error {
	defer f.hosts.close()
	c := f.setup.Load().sandbox
	if !c.Enabled {
		close(f.looked)
		<-ctx.Done()
		return nil
	}
	if !c.LocalFrontends {
		f.log.Info("calls of the web page and the terminal run on the host; local_frontends = true under [sandbox] runs them in containers too")
	}
	engines, err := Engines(c, f.config.Dir, func(name string) (Engine, error) { return f.config.Drivers.Get(name), nil }, f.log)
	if err != nil {
		f.see(fmt.Errorf("%w: %w", machine.ErrUnavailable, err))
		close(f.looked)
		<-ctx.Done()
		return nil
	}
	if Registry(f.config.Store, f.config.Cluster) != nil {
		engines = shareable(engines)
	}
	var running sync.WaitGroup
	running.Go(func() { f.selfTesting(ctx) })
	for ctx.Err() == nil {
		e := f.chosenEngine()
		if e == nil {
			e = Answering(ctx, engines)
		}
		err := f.look(ctx, e, c, &running)
		if err == nil {
			f.judge(f.gate(ctx, e))
		}
		f.see(err)
		f.told()
		select {
		case <-time.After(checkEvery):
		case <-ctx.Done():
		}
	}
	running.Wait()
	return nil
}

// chosenEngine returns the engine that makes the sandboxes: the first that has answered, for as long as the host runs. It is nil before that.
func (f *Fleet) chosenEngine() Engine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.chosen
}

// look asks the engine for a sign of life, and makes the manager the first time that it answers.
func (f *Fleet) look(ctx context.Context, e Engine, c config.Sandbox, running *sync.WaitGroup) error {
	ping, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	if err := e.Ping(ping); err != nil {
		return err
	}
	f.mu.Lock()
	made, back := f.manager, f.unavailable != nil
	f.mu.Unlock()
	if back {
		if err := f.learn(ctx, e); err != nil {
			return err
		}
	}
	if made != nil {
		if back { // containers may have been lost or left over meanwhile
			f.tidy(ctx, made, f.forgetLeft)
			running.Go(func() { f.reconcile(ctx, made) })
		}
		return nil
	}
	manager, err := f.newManager(e, c)
	if err != nil {
		return fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	f.mu.Lock()
	f.chosen = e
	if _, gated := e.(proved); gated {
		f.unproved = errLooking
	}
	f.mu.Unlock()
	f.judge(f.gate(ctx, e))
	f.see(nil)
	f.told()
	f.tidy(ctx, manager, f.reconcile, f.sweepVolumes, f.forgetLeft)
	f.mu.Lock()
	f.manager = manager
	f.fillPools()
	f.mu.Unlock()
	close(f.tidied)
	running.Go(func() { f.manage(ctx, manager) })
	return nil
}

// told ends the wait for the first check of the engine.
func (f *Fleet) told() {
	select {
	case <-f.looked:
	default:
		close(f.looked)
	}
}

// tidy removes what is left on the engine in steps.
func (f *Fleet) tidy(ctx context.Context, manager *sandbox.Manager, steps ...func(context.Context, *sandbox.Manager)) {
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	for _, step := range steps {
		step(ctx, manager)
	}
}

// manage runs the manager until ctx ends, then removes the containers. It does not wait longer for a call to the engine that began before,
// and which ends with the engine's driver or by its own deadline.
func (f *Fleet) manage(ctx context.Context, manager *sandbox.Manager) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := manager.Run(ctx); err != nil && ctx.Err() == nil {
			f.log.Error("sandbox manager ended", "error", err)
		}
	}()
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	select {
	case <-ended:
	case <-time.After(settleTimeout):
	}
	if err := manager.DestroyAll(last); err != nil {
		f.log.Error("remove containers", "error", err)
	}
}

func (f *Fleet) newManager(e Engine, c config.Sandbox) (*sandbox.Manager, error) {
	supervisor, err := program.FindSupervisorFor(e, f.log)
	if err != nil {
		return nil, err
	}
	var registry container.Registry
	if f.Engine().Shared != "" {
		registry = Registry(f.config.Store, f.config.Cluster)
	}
	return sandbox.New(sandbox.Config{
		Driver: e, Instance: f.instance, WorkspaceRoot: f.folders.Workspaces, Spec: specs.Of(c), Supervisor: supervisor, Holds: f.holds,
		Log: f.log, Quota: f.quota, Egress: f.config.Egress, Current: f.spec, MountRules: f.mountRules, Secret: f.secret,
		PauseAfter: time.Duration(c.PauseAfter), IdleAfter: time.Duration(c.IdleAfter), MaxAge: time.Duration(c.MaxAge),
		Lease: time.Duration(c.Lease), Registry: registry,
		Network: f.config.Outside.Network, Roots: f.config.Outside.Roots,
	})
}

func (f *Fleet) reconcile(ctx context.Context, manager *sandbox.Manager) {
	if err := manager.Reconcile(ctx); err != nil && ctx.Err() == nil {
		f.log.Error("clean up after an earlier run", "error", err)
	}
}

// learn asks for the engine's capabilities, and logs what the configuration needs and the engine lacks.
func (f *Fleet) learn(ctx context.Context, e Engine) error {
	engine, err := e.Capabilities(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.engine = &engine
	configured := f.setup.Load().specs
	for _, name := range configured.Names() {
		s, _ := configured.Named(name)
		if err := Supports(e, engine, s); err != nil {
			f.log.Warn("a sandbox cannot be made", "sandbox", name, "reason", machine.Reason(err))
		}
	}
	return nil
}

// Engine describes what makes the sandboxes, as it was when it last answered; it is empty before that.
func (f *Fleet) Engine() driver.Capabilities {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.engine == nil {
		return driver.Capabilities{}
	}
	return *f.engine
}

// NotHeld names what a sandbox does without, as Capabilities.NotHeld does. The name is that for people: an unknown one is [sandbox].
func (f *Fleet) NotHeld(where string) string {
	s, named := f.spec(where)
	if !named {
		s, _ = f.spec("")
	}
	return f.Engine().NotHeld(s.Prefers)
}

// see records the engine's state, and logs it when it has changed.
func (f *Fleet) see(err error) {
	f.mu.Lock()
	before := f.unavailable
	f.unavailable = err
	f.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		f.log.Warn(machine.ErrUnavailable.Error(), "reason", machine.Reason(err))
	case err == nil && before != nil:
		f.log.Info("sandbox is available", "engine", f.Engine().Engine)
	}
}

// judge records why the engine may not be used, and logs it when that has changed.
func (f *Fleet) judge(err error) {
	f.mu.Lock()
	before := f.unproved
	f.unproved = err
	if before != nil {
		f.fillPools()
	}
	f.mu.Unlock()
	switch {
	case errors.Is(err, drivers.ErrNotHeld) && (before == nil || before.Error() != err.Error()):
		f.log.Error("the driver of sandboxes is not used", "reason", machine.Reason(err))
	case err == nil && errors.Is(before, errTesting):
		f.log.Info("the driver of sandboxes has passed its self-test")
	}
}

// fillPools has the manager keep the configured pools, unless its engine may not be used; f.mu is held.
func (f *Fleet) fillPools() {
	if s := f.setup.Load(); f.manager != nil && f.unproved == nil {
		f.manager.SetPools(s.pools, s.poolCPU)
	}
}

// answers returns why the engine makes no sandboxes now, or nil. It waits for the first check until ctx ends.
func (f *Fleet) answers(ctx context.Context) error {
	defer machine.NoticeSlow(ctx, "waiting for the engine of the sandboxes to answer")()
	select {
	case <-f.looked:
	case <-ctx.Done():
		return fmt.Errorf("%w: the engine has not answered yet: %w", machine.ErrUnavailable, ctx.Err())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unavailable
}

// supports returns why an engine that answers cannot make such containers, or nil.
func (f *Fleet) supports(all ...spec.Spec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unproved != nil || f.engine == nil || f.chosen == nil {
		return f.unproved
	}
	for _, s := range all {
		if err := Supports(f.chosen, *f.engine, s); err != nil {
			return err
		}
	}
	return nil
}
