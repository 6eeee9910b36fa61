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

// timeouts are all periods of supervision, so that tests can be quick.
type timeouts struct {
	describe    time.Duration // deadline of Describe
	healthEvery time.Duration
	healthIn    time.Duration // deadline of one health call
	healthMiss  int           // so many in a row end the process
	statusEvery time.Duration // least time between two states that are taken from a plugin
	lockEvery   time.Duration // how often the lock is looked at
	namesEvery  time.Duration // how often the files are looked at by which names are looked up
	proof       time.Duration // how long a new version has to live before the one before it is given up
	stdin       time.Duration // from closing standard input to the kill
	reap        time.Duration // from the kill to giving up on the process
	exitLag     time.Duration // how long after a failed call a dying process may be seen to exit
}

func defaultTimeouts() timeouts {
	return timeouts{
		describe: 5 * time.Second, healthEvery: 10 * time.Second, healthIn: 3 * time.Second, healthMiss: 3,
		statusEvery: 100 * time.Millisecond, stdin: time.Second, reap: 2 * time.Second,
		lockEvery: 250 * time.Millisecond, namesEvery: 2 * time.Second, proof: 3 * time.Second, exitLag: time.Second,
	}
}

// process is one started plugin process, as supervision sees it.
type process interface {
	pid() int
	version() string
	// held says what holds it in.
	held() []jail.Measure
	// describe asks who it is and compares the answer with the manifest.
	describe(ctx context.Context) error
	// configure hands over settings and secrets.
	configure(ctx context.Context) error
	// check makes one health call.
	check(ctx context.Context) error
	// watch reports what the plugin says about its platform until ctx ends or it stops saying so.
	watch(ctx context.Context, tell func(s State, detail, login string))
	// use returns the process as a Handler gets it.
	use(gone, draining context.Context) *kind.Conn
	// stopTimeout is how long an orderly end may take.
	stopTimeout() time.Duration
	// shutdown asks the process to end in order and waits for that until ctx ends.
	shutdown(ctx context.Context)
	// kill ends the process and its group by force and returns when it is gone. It may be called at any time, and again.
	kill()
	// exited is closed when the process is gone; failure then says how it ended.
	exited() <-chan struct{}
	failure() error
}

// supervisor keeps up one instance: one loop, one process at a time.
type supervisor struct {
	host     *Host
	instance Instance
	use      Handler
	log      *slog.Logger
	mask     *strings.Replacer
	recent   *recent
	failures failures // of the loop alone
	canaries chan *canary
	retired  sync.WaitGroup // processes that end while their successors are at work

	stop  context.CancelFunc // set when Run begins; under Host.mu
	ended chan struct{}      // closed when the loop has ended

	mu       sync.Mutex
	now      Status
	told     State                   // what the plugin said last about its platform
	toldBy   string                  // in its words
	again    context.CancelCauseFunc // ends the current turn
	measures []jail.Measure          // that hold the process in
	login    string                  // code that the operator has to scan; a secret
	proved   string                  // version that this instance runs though its plugin does not yet
}

// errRestart ends a turn of the loop because an operator asked for it.
var errRestart = errors.New("restart asked for")

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
	var now *canary // nil for a version that has proved itself
	for n := 0; ctx.Err() == nil; n++ {
		sup.update(func(s *Status) { s.Restarts = n })
		turn := sup.turn(ctx)
		next, err := sup.once(turn, now)
		switch {
		case now.pending():
			sup.giveUp(now, err)
		case next == nil && turn.Err() == nil:
			next = sup.pause(turn, err)
		}
		if errors.Is(context.Cause(turn), errRestart) {
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

// turn begins one life of the instance, the pause after it included. Restart ends it.
func (sup *supervisor) turn(ctx context.Context) context.Context {
	turn, again := context.WithCancelCause(ctx)
	sup.mu.Lock()
	defer sup.mu.Unlock()
	sup.again = again
	return turn
}

func (sup *supervisor) restart() {
	sup.mu.Lock()
	defer sup.mu.Unlock()
	if sup.again != nil {
		sup.again(errRestart)
	}
}

// once starts a process, uses it and returns, when it is gone, with what was wrong with it, or with the canary that it made room for.
func (sup *supervisor) once(turn context.Context, t *canary) (next *canary, err error) {
	p, err := sup.open(turn, t)
	if err != nil {
		return nil, err
	}
	ready := time.Now()
	next, err = sup.serve(turn, p, t)
	if time.Since(ready) >= calmAfter {
		sup.failures.calm()
	}
	return next, err
}

// open returns a process that is ready to be used: the one that a canary brings along, or one that it starts.
func (sup *supervisor) open(turn context.Context, t *canary) (process, error) {
	if t != nil && t.process != nil {
		sup.update(func(s *Status) { s.Version, s.PID = t.process.version(), t.process.pid() })
		sup.contained(t.process.held())
		return t.process, nil
	}
	p, err := sup.host.start(turn, sup, launchSpec{version: t.next()})
	if err != nil {
		return nil, err
	}
	sup.update(func(s *Status) { s.PID = p.pid() })
	if err := sup.introduce(turn, p, sup.set); err != nil {
		p.kill()
		sup.update(func(s *Status) { s.PID = 0 })
		return nil, err
	}
	return p, nil
}

// introduce takes a started process to the point where it can be used.
func (sup *supervisor) introduce(turn context.Context, p process, set func(State, string)) error {
	set(Describing, "")
	if err := p.describe(turn); err != nil {
		return sup.because(turn, p, fmt.Errorf("describe: %w", err))
	}
	set(Configuring, "")
	if err := p.configure(turn); err != nil {
		return sup.because(turn, p, fmt.Errorf("configure: %w", err))
	}
	return nil
}

// because prefers the way in which the process ended to the failed call that showed it.
func (sup *supervisor) because(turn context.Context, p process, err error) error {
	if errors.As(err, new(permanent)) {
		return err
	}
	select {
	case <-p.exited():
		return fmt.Errorf("%w: %w", err, p.failure())
	case <-time.After(sup.host.timeouts.exitLag):
	case <-turn.Done():
	}
	return err
}

// serve lets the handler use p until the instance has to stop, fails, or makes room for another version, and then ends p in order.
func (sup *supervisor) serve(turn context.Context, p process, t *canary) (next *canary, err error) {
	sup.set(Ready, "")
	sup.tell(Ready, "", "")
	sup.log.Info("plugin is ready", "pid", p.pid(), "version", p.version())
	draining, drain := context.WithCancel(turn)
	defer drain()
	gone, vanish := context.WithCancel(context.Background())

	var tasks sync.WaitGroup
	served, sick := make(chan error, 1), make(chan error, 1)
	tasks.Go(func() { served <- sup.use.Serve(draining, p.use(gone, draining)) })
	tasks.Go(func() { sup.health(draining, p, sick) })
	tasks.Go(func() { p.watch(draining, sup.tell) })

	next, err = sup.until(turn, p, served, sick, t)
	sup.set(Draining, "")
	sup.tellLogin("")
	drain()
	why := err // the result is another's by the time at which the old process leaves
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

// until waits for the first reason to end p; nil and nil means that somebody asked for it.
func (sup *supervisor) until(turn context.Context, p process, served, sick chan error, t *canary) (*canary, error) {
	proof, stop := t.proof(sup.host.timeouts.proof)
	defer stop()
	for {
		select {
		case <-turn.Done():
			return nil, nil
		case <-proof:
			sup.prove(t)
		case next := <-sup.canaries:
			return next, nil
		case <-p.exited():
			return nil, p.failure()
		case err := <-sick:
			return nil, err
		case err := <-served:
			served <- nil // end waits for it as well
			if turn.Err() != nil {
				return nil, nil
			}
			if err == nil {
				err = errors.New("the handler returned early")
			}
			return nil, sup.because(turn, p, fmt.Errorf("use the plugin: %w", err))
		}
	}
}

// end stops p: the handler first, which has seen the end of its context and finishes its calls, then the process in
// order, then by force. All of it takes no longer than the stop timeout and what timeouts adds.
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

// health checks p until ctx ends or it has missed too often.
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

// tell takes over what the plugin says about its platform.
func (sup *supervisor) tell(s State, detail, login string) {
	sup.mu.Lock()
	sup.told, sup.toldBy = s, detail
	sup.mu.Unlock()
	sup.tellLogin(login)
	sup.show(s, detail)
}

// recovered shows again what the plugin said last.
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

// pause waits until the instance may start again after err, or until another version is to be tried.
func (sup *supervisor) pause(turn context.Context, err error) *canary {
	why := sup.text(err.Error())
	if errors.Is(err, errDisabled) {
		sup.log.Info("plugin is disabled", "reason", why)
		sup.set(Disabled, why)
		return sup.wait(turn, nil)
	}
	sup.update(func(s *Status) { s.LastError = why })
	tooMany := sup.failures.add(time.Now())
	switch {
	case errors.As(err, new(permanent)):
		return sup.quarantine(turn, "trying again cannot help", why)
	case tooMany:
		return sup.quarantine(turn, "it failed too often", why)
	}
	delay := sup.failures.delay(sup.host.random)
	sup.log.Warn("plugin failed; it will be started again", "error", why, "delay", delay.Round(time.Millisecond))
	sup.set(Backoff, "")
	return sup.wait(turn, time.After(delay))
}

// wait waits for a while, for ever where it is nil, or until something else is to be done.
func (sup *supervisor) wait(turn context.Context, while <-chan time.Time) *canary {
	select {
	case next := <-sup.canaries:
		return next
	case <-while:
	case <-turn.Done():
	}
	return nil
}

// quarantine waits for an operator.
func (sup *supervisor) quarantine(turn context.Context, rule, why string) *canary {
	sup.log.Error("plugin is quarantined", "reason", rule, "error", why)
	sup.set(Quarantined, rule)
	return sup.wait(turn, nil)
}

// maxStatusText bounds what a status quotes of a plugin, in bytes.
const maxStatusText = 4 << 10

// text makes words of a plugin fit for a status: bounded, secrets masked.
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

// update changes the status and announces it if that made a difference.
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

// contained notes what holds the process in, and says what does not when that is news.
func (sup *supervisor) contained(by []jail.Measure) {
	sup.mu.Lock()
	news := !slices.Equal(missing(by), missing(sup.measures))
	sup.measures = by
	sup.mu.Unlock()
	if m := missing(by); news && len(m) > 0 {
		sup.log.Info("plugin is not fully contained", "missing", m)
	}
}

// missing are the measures that could not be taken, and why, each reason once.
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
