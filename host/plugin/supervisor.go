package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/redact"
	"github.com/flynnhost/flynn/host/plugin/jail"
	"github.com/flynnhost/flynn/host/plugin/kind"
)

// timeouts are all durations of supervision, which tests make short.
type timeouts struct {
	describe    time.Duration // deadline of Describe
	healthEvery time.Duration
	healthIn    time.Duration // deadline of one health call
	healthMiss  int           // this many misses in a row end the process
	statusEvery time.Duration // least time between two states of a plugin
	lockEvery   time.Duration // how often the lock is checked
	namesEvery  time.Duration // how often the files for name lookups are checked
	proof       time.Duration // how long the trial of a new version takes
	stdin       time.Duration // from closing standard input to the kill
	reap        time.Duration // from the kill to giving up on the process
	leaseEvery  time.Duration // how often the lease of an instance that runs is checked
	standby     time.Duration // the same for one that does not: answers wait for it
	leaseLost   time.Duration // how long it may be gone before the process is stopped: after a suspension the host may get it back
	exitLag     time.Duration // how long after a failed call a crashing process may take to exit
}

func defaultTimeouts() timeouts {
	return timeouts{
		describe: 5 * time.Second, healthEvery: 10 * time.Second, healthIn: 3 * time.Second, healthMiss: 3,
		statusEvery: 100 * time.Millisecond, stdin: time.Second, reap: 2 * time.Second,
		lockEvery: 250 * time.Millisecond, namesEvery: 2 * time.Second, proof: 3 * time.Second, exitLag: time.Second,
		leaseEvery: 250 * time.Millisecond, leaseLost: time.Second, standby: 50 * time.Millisecond,
	}
}

// process is a started plugin process, as the supervisor uses it.
type process interface {
	pid() int
	version() string
	// held returns its containment measures.
	held() []jail.Measure
	// describe calls Describe and compares the answer with the manifest.
	describe(ctx context.Context) error
	// configure sends settings and secrets.
	configure(ctx context.Context) error
	// check makes one health call.
	check(ctx context.Context) error
	// watch reports the states of the plugin until ctx or the stream ends.
	watch(ctx context.Context, tell func(s State, detail, login string))
	// use returns the connection for a Handler.
	use(gone, draining context.Context) *kind.Conn
	// lease is the lease that the process needs; nil for none.
	lease() kind.Lease
	// stopTimeout is how long a shutdown may take.
	stopTimeout() time.Duration
	// shutdown asks the process to end and waits for that until ctx ends.
	shutdown(ctx context.Context)
	// kill kills the process and its group and returns when it is gone. It may be called at any time, and again.
	kill()
	// exited is closed when the process is gone; failure then says how it ended.
	exited() <-chan struct{}
	failure() error
}

// supervisor keeps one instance running: one loop, one process at a time.
type supervisor struct {
	host     *Host
	instance Instance
	use      Handler
	log      *slog.Logger
	mask     *strings.Replacer
	recent   *recent
	failures failures // used only by the loop
	canaries chan *canary
	retired  sync.WaitGroup // processes that end while their successors run

	stop  context.CancelFunc // set when Run begins; under Host.mu
	ended chan struct{}      // closed when the loop has ended

	mu       sync.Mutex
	now      Status
	told     State                   // last state that the plugin reported
	toldBy   string                  // its detail
	again    context.CancelCauseFunc // ends the current life
	measures []jail.Measure          // containment of the process
	login    string                  // code that the operator has to scan; a secret
	proved   string                  // see pinned
}

// errRestart ends a life because an operator asked for a restart.
var errRestart = errors.New("restart requested")

// elsewhere ends a life because the lease is gone: the instance may run on another host.
type elsewhere struct{ lease kind.Lease }

func (elsewhere) Error() string { return "another host has the lease" }

func newSupervisor(h *Host, i Instance, use Handler, kept *recent) *supervisor {
	return &supervisor{
		host: h, instance: i, use: use, ended: make(chan struct{}), canaries: make(chan *canary), mask: redact.Words(slices.Collect(maps.Values(i.Secrets))...), recent: kept,
		log: slog.New(tee{Handler: h.log.With("instance", i.Name, "plugin", i.Plugin).Handler(), recent: kept}),
		now: Status{
			Name: i.Name, Plugin: i.Plugin, Kind: i.Kind, Critical: i.Critical, State: Stopped, Since: time.Now(),
		},
	}
}

// run keeps the instance alive until ctx ends and returns when its process is gone.
func (sup *supervisor) run(ctx context.Context) {
	defer sup.retired.Wait()
	var now *canary // nil without a trial
	for n := 0; ctx.Err() == nil; n++ {
		sup.update(func(s *Status) { s.Restarts = n })
		life := sup.life(ctx)
		next, err := sup.once(life, now)
		away, is := errors.AsType[elsewhere](err)
		switch {
		case now.pending():
			sup.giveUp(now, err)
		case is && life.Err() == nil:
			n-- // it has not failed
			next = sup.standby(life, away)
		case next == nil && life.Err() == nil:
			next = sup.pause(life, err)
		}
		if errors.Is(context.Cause(life), errRestart) {
			sup.failures.calm()
		}
		sup.again(nil)
		now = next
	}
	if now.pending() {
		now.discard()
		now.decide(ctx.Err())
	}
	sup.set(Stopped, "")
}

// life begins a life of the instance: a process, and the pause after it. Its context ends with restart.
func (sup *supervisor) life(ctx context.Context) context.Context {
	life, again := context.WithCancelCause(ctx)
	sup.mu.Lock()
	defer sup.mu.Unlock()
	sup.again = again
	return life
}

func (sup *supervisor) restart() {
	sup.mu.Lock()
	defer sup.mu.Unlock()
	if sup.again != nil {
		sup.again(errRestart)
	}
}

// once starts a process, uses it and returns when it is gone, with its error or with the canary that replaces it.
func (sup *supervisor) once(life context.Context, t *canary) (next *canary, err error) {
	p, err := sup.open(life, t)
	if err != nil {
		return nil, err
	}
	ready := time.Now()
	next, err = sup.serve(life, p, t)
	if time.Since(ready) >= calmAfter {
		sup.failures.calm()
	}
	return next, err
}

// open returns a ready process: that of a canary, or one that it starts.
func (sup *supervisor) open(life context.Context, t *canary) (process, error) {
	if t != nil && t.process != nil {
		sup.update(func(s *Status) { s.Version, s.PID = t.process.version(), t.process.pid() })
		sup.contained(t.process.held())
		return t.process, nil
	}
	p, err := sup.host.start(life, sup, launchSpec{version: t.next()})
	if err != nil {
		return nil, err
	}
	sup.update(func(s *Status) { s.PID = p.pid() })
	if err := sup.introduce(life, p, sup.set); err != nil {
		p.kill()
		sup.update(func(s *Status) { s.PID = 0 })
		return nil, err
	}
	return p, nil
}

// introduce describes and configures a started process.
func (sup *supervisor) introduce(life context.Context, p process, set func(State, string)) error {
	set(Describing, "")
	if err := p.describe(life); err != nil {
		return sup.because(life, p, fmt.Errorf("describe: %w", err))
	}
	set(Configuring, "")
	if err := p.configure(life); err != nil {
		return sup.because(life, p, fmt.Errorf("configure: %w", err))
	}
	return nil
}

// because adds to the error of a failed call how the process ended, if it did.
func (sup *supervisor) because(life context.Context, p process, err error) error {
	if errors.As(err, new(permanent)) {
		return err
	}
	select {
	case <-p.exited():
		return fmt.Errorf("%w: %w", err, p.failure())
	case <-time.After(sup.host.timeouts.exitLag):
	case <-life.Done():
	}
	return err
}

// serve lets the handler use p until the instance has to stop, fails, or is replaced by another version, and then shuts p down.
func (sup *supervisor) serve(life context.Context, p process, t *canary) (next *canary, err error) {
	sup.set(Ready, "")
	sup.tell(Ready, "", "")
	sup.log.Info("plugin is ready", "pid", p.pid(), "version", p.version())
	draining, drain := context.WithCancel(life)
	defer drain()
	gone, vanish := context.WithCancel(context.Background())

	var tasks sync.WaitGroup
	served, sick, lost := make(chan error, 1), make(chan error, 1), make(chan struct{})
	tasks.Go(func() { served <- sup.use.Serve(draining, p.use(gone, draining)) })
	tasks.Go(func() { sup.health(draining, p, sick) })
	tasks.Go(func() { p.watch(draining, sup.tell) })
	if l := p.lease(); l != nil {
		tasks.Go(func() { sup.holds(draining, l, lost) })
	}

	next, err = sup.until(life, p, served, sick, lost, t)
	sup.set(Draining, "")
	sup.tellLogin("")
	drain()
	why := err // leave may run after this function has returned
	if _, is := errors.AsType[elsewhere](err); is {
		why = nil // it ends in order
	}
	leave := func() {
		sup.end(p, served, why)
		vanish()
		tasks.Wait()
	}
	if next != nil && next.process != nil {
		sup.leaveTo(next, p, served, leave)
		return next, nil
	}
	leave()
	sup.update(func(s *Status) { s.PID = 0 })
	return next, err
}

// until waits for the first reason to end p; nil and nil means that it was requested.
func (sup *supervisor) until(life context.Context, p process, served, sick chan error, lost chan struct{}, t *canary) (*canary, error) {
	proof, stop := t.proof(sup.host.timeouts.proof)
	defer stop()
	for {
		select {
		case <-life.Done():
			return nil, nil
		case <-proof:
			sup.prove(t)
		case next := <-sup.canaries:
			return next, nil
		case <-p.exited():
			return nil, p.failure()
		case <-lost:
			return nil, elsewhere{p.lease()}
		case err := <-sick:
			return nil, sup.because(life, p, err) // a process that crashes answers no checks before it is gone
		case err := <-served:
			served <- nil // end receives it as well
			if life.Err() != nil {
				return nil, nil
			}
			if err == nil {
				err = errors.New("the handler returned early")
			}
			return nil, sup.because(life, p, fmt.Errorf("use the plugin: %w", err))
		}
	}
}

// end stops p: first the handler, whose context has ended and which finishes its calls, then the process by a shutdown, and then by
// force. All of it takes no longer than the stop timeout and the additions of timeouts.
func (sup *supervisor) end(p process, served chan error, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.stopTimeout())
	defer cancel()
	if why == nil {
		select {
		case <-served:
		case <-p.exited():
		case <-ctx.Done():
		}
		p.shutdown(ctx)
	}
	p.kill()
}

// holds closes lost when the lease has been gone for some time. The process stopped using its platform by itself when it expired.
func (sup *supervisor) holds(ctx context.Context, l kind.Lease, lost chan<- struct{}) {
	tick := time.NewTicker(sup.host.timeouts.leaseEvery)
	defer tick.Stop()
	most := int(sup.host.timeouts.leaseLost / sup.host.timeouts.leaseEvery)
	for gone := 0; gone < most; { // counted in looks, which stop with the host: after a suspension it gets the time to renew its lease
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if gone++; l.Sending() > 0 {
			gone = 0
		}
	}
	close(lost)
}

// standby waits for the lease.
func (sup *supervisor) standby(life context.Context, away elsewhere) *canary {
	sup.update(func(s *Status) { s.PID = 0 })
	sup.set(Standby, away.Error())
	tick := time.NewTicker(sup.host.timeouts.standby)
	defer tick.Stop()
	for away.lease.Sending() <= 0 {
		select {
		case <-tick.C:
		case next := <-sup.canaries:
			return next
		case <-life.Done():
			return nil
		}
	}
	return nil
}

// health checks p until ctx ends or p has missed too many checks.
func (sup *supervisor) health(ctx context.Context, p process, sick chan<- error) {
	tick := time.NewTicker(sup.host.timeouts.healthEvery)
	defer tick.Stop()
	for misses := 0; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		call, cancel := context.WithTimeout(ctx, sup.host.timeouts.healthIn)
		err := p.check(call)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && misses > 0:
			misses = 0
			sup.recovered()
		case err != nil:
			misses++
			sup.show(Degraded, fmt.Sprintf("missed %d health checks: %v", misses, err))
		}
		if misses >= sup.host.timeouts.healthMiss {
			sick <- fmt.Errorf("missed %d health checks in a row: %w", misses, err)
			return
		}
	}
}

// tell sets the state that the plugin reports.
func (sup *supervisor) tell(s State, detail, login string) {
	sup.mu.Lock()
	sup.told, sup.toldBy = s, detail
	sup.mu.Unlock()
	sup.tellLogin(login)
	sup.show(s, detail)
}

// recovered shows the last state that the plugin reported again.
func (sup *supervisor) recovered() {
	sup.mu.Lock()
	s, detail := sup.told, sup.toldBy
	sup.mu.Unlock()
	sup.show(s, detail)
}

// show changes the state of an instance that is in use.
func (sup *supervisor) show(s State, detail string) {
	sup.mu.Lock()
	state := sup.now.State
	sup.mu.Unlock()
	if state == Ready || state == Degraded {
		sup.set(s, sup.text(detail))
	}
}

// pause waits until the instance may start again after err, or until there is a canary.
func (sup *supervisor) pause(life context.Context, err error) *canary {
	why := sup.text(err.Error())
	if errors.Is(err, errDisabled) {
		sup.log.Info("plugin is disabled", "reason", why)
		sup.set(Disabled, why)
		return sup.wait(life, nil)
	}
	sup.update(func(s *Status) { s.LastError = why })
	tooMany := sup.failures.add(time.Now())
	switch {
	case errors.As(err, new(permanent)):
		return sup.quarantine(life, "a restart cannot help", why)
	case tooMany:
		return sup.quarantine(life, "it failed too often", why)
	}
	delay := sup.failures.delay(sup.host.random)
	sup.log.Warn("plugin failed; it will be started again", "error", why, "delay", delay.Round(time.Millisecond))
	sup.set(Backoff, "")
	return sup.wait(life, time.After(delay))
}

// wait waits for while, or for ever if it is nil, until there is a canary or the life ends.
func (sup *supervisor) wait(life context.Context, while <-chan time.Time) *canary {
	select {
	case next := <-sup.canaries:
		return next
	case <-while:
	case <-life.Done():
	}
	return nil
}

// quarantine waits for an operator.
func (sup *supervisor) quarantine(life context.Context, rule, why string) *canary {
	sup.log.Error("plugin is quarantined", "reason", rule, "error", why)
	sup.set(Quarantined, rule)
	return sup.wait(life, nil)
}

// maxStatusText bounds a plugin's texts in a status, in bytes.
const maxStatusText = 4 << 10

// text makes a plugin's text fit for a status: bounded, with secrets masked.
func (sup *supervisor) text(s string) string {
	return kind.Text(sup.mask.Replace(s), maxStatusText)
}

// set changes the state.
func (sup *supervisor) set(state State, detail string) {
	sup.update(func(s *Status) {
		if s.State != state {
			s.State, s.Since = state, time.Now()
		}
		s.Detail = detail
	})
}

// update changes the status and announces a change.
func (sup *supervisor) update(change func(*Status)) {
	sup.mu.Lock()
	before := sup.now
	change(&sup.now)
	after := sup.now
	sup.mu.Unlock()
	if before != after {
		sup.host.announce(after)
	}
}

// contained records the containment of the process, and logs missing measures if they have changed.
func (sup *supervisor) contained(by []jail.Measure) {
	sup.mu.Lock()
	news := !slices.Equal(missing(by), missing(sup.measures))
	sup.measures = by
	sup.mu.Unlock()
	if m := missing(by); news && len(m) > 0 {
		sup.log.Info("plugin is not fully contained", "missing", m)
	}
}

// missing are the measures that are off, with each reason once.
func missing(measures []jail.Measure) []string {
	var out []string
	for _, m := range measures {
		switch last := len(out) - 1; {
		case m.On:
		case last >= 0 && strings.HasSuffix(out[last], ": "+m.Detail):
			out[last] = strings.TrimSuffix(out[last], ": "+m.Detail) + ", " + m.Name + ": " + m.Detail
		default:
			out = append(out, m.Name+": "+m.Detail)
		}
	}
	return out
}

func (sup *supervisor) snapshot() Status {
	sup.mu.Lock()
	defer sup.mu.Unlock()
	return sup.now
}
