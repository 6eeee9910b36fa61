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
	"github.com/flynnhost/flynn/host/plugin/cell"
)

// pace holds every period of supervision, so that tests can be quick.
type pace struct {
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

func defaultPace() pace {
	return pace{
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
	held() []cell.Measure
	// describe asks who it is and compares the answer with the manifest.
	describe(ctx context.Context) error
	// configure hands over settings and secrets.
	configure(ctx context.Context) error
	// check makes one health call.
	check(ctx context.Context) error
	// watch reports what the plugin says about its platform until ctx ends or it stops saying so.
	watch(ctx context.Context, tell func(s State, detail, login string))
	// client makes the client for a Handler.
	client(gone, draining context.Context) *Client
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

// unit supervises one instance: one loop, one process at a time.
type unit struct {
	host     *Host
	instance Instance
	use      Handler
	log      *slog.Logger
	mask     *strings.Replacer
	recent   *recent
	failures failures // of the loop alone
	trials   chan *trial
	retired  sync.WaitGroup // processes that end while their successors are at work

	stop  context.CancelFunc // set when Run begins; under Host.mu
	ended chan struct{}      // closed when the loop has ended

	mu       sync.Mutex
	now      Status
	told     State                   // what the plugin said last about its platform
	toldBy   string                  // in its words
	again    context.CancelCauseFunc // ends the current turn
	measures []cell.Measure          // that hold the process in
	login    string                  // code that the operator has to scan; a secret
	proved   string                  // version that this instance runs though its plugin does not yet
}

// errRestart ends a turn of the loop because an operator asked for it.
var errRestart = errors.New("restart asked for")

func newUnit(h *Host, i Instance, use Handler, kept *recent) *unit {
	return &unit{
		host: h, instance: i, use: use, ended: make(chan struct{}), trials: make(chan *trial), mask: redact.Words(slices.Collect(maps.Values(i.Secrets))...), recent: kept,
		log: slog.New(tee{Handler: h.log.With("instance", i.Name, "plugin", i.Plugin).Handler(), recent: kept}),
		now: Status{
			Name: i.Name, Plugin: i.Plugin, Kind: i.Kind, Critical: i.Critical, State: Stopped, Since: time.Now(),
		},
	}
}

// run keeps the instance alive until ctx ends and returns when its process is gone.
func (u *unit) run(ctx context.Context) {
	defer u.retired.Wait()
	var now *trial // nil for a version that has proved itself
	for n := 0; ctx.Err() == nil; n++ {
		u.update(func(s *Status) { s.Restarts = n })
		turn := u.turn(ctx)
		next, err := u.once(turn, now)
		switch {
		case now.pending():
			u.giveUp(now, err)
		case next == nil && turn.Err() == nil:
			next = u.pause(turn, err)
		}
		if errors.Is(context.Cause(turn), errRestart) {
			u.failures.calm()
		}
		u.again(nil)
		now = next
	}
	if now.pending() {
		now.discard()
		now.decide(ctx.Err())
	}
	u.set(Stopped, "")
}

// turn begins one life of the instance, the pause after it included. Restart ends it.
func (u *unit) turn(ctx context.Context) context.Context {
	turn, again := context.WithCancelCause(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.again = again
	return turn
}

func (u *unit) restart() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.again != nil {
		u.again(errRestart)
	}
}

// once starts a process, uses it and returns, when it is gone, with what was wrong with it, or with the trial that it made room for.
func (u *unit) once(turn context.Context, t *trial) (next *trial, err error) {
	p, err := u.open(turn, t)
	if err != nil {
		return nil, err
	}
	ready := time.Now()
	next, err = u.serve(turn, p, t)
	if time.Since(ready) >= calmAfter {
		u.failures.calm()
	}
	return next, err
}

// open returns a process that is ready to be used: the one that a trial brings along, or one that it starts.
func (u *unit) open(turn context.Context, t *trial) (process, error) {
	if t != nil && t.process != nil {
		u.update(func(s *Status) { s.Version, s.PID = t.process.version(), t.process.pid() })
		u.contained(t.process.held())
		return t.process, nil
	}
	p, err := u.host.start(turn, u, order{version: t.order()})
	if err != nil {
		return nil, err
	}
	u.update(func(s *Status) { s.PID = p.pid() })
	if err := u.introduce(turn, p, u.set); err != nil {
		p.kill()
		u.update(func(s *Status) { s.PID = 0 })
		return nil, err
	}
	return p, nil
}

// introduce takes a started process to the point where it can be used.
func (u *unit) introduce(turn context.Context, p process, set func(State, string)) error {
	set(Describing, "")
	if err := p.describe(turn); err != nil {
		return u.because(turn, p, fmt.Errorf("describe: %w", err))
	}
	set(Configuring, "")
	if err := p.configure(turn); err != nil {
		return u.because(turn, p, fmt.Errorf("configure: %w", err))
	}
	return nil
}

// because prefers the way in which the process ended to the failed call that showed it.
func (u *unit) because(turn context.Context, p process, err error) error {
	if errors.As(err, new(permanent)) {
		return err
	}
	select {
	case <-p.exited():
		return fmt.Errorf("%w: %w", err, p.failure())
	case <-time.After(u.host.pace.exitLag):
	case <-turn.Done():
	}
	return err
}

// serve lets the handler use p until the instance has to stop, fails, or makes room for another version, and then ends p in order.
func (u *unit) serve(turn context.Context, p process, t *trial) (next *trial, err error) {
	u.set(Ready, "")
	u.tell(Ready, "", "")
	u.log.Info("plugin is ready", "pid", p.pid(), "version", p.version())
	draining, drain := context.WithCancel(turn)
	defer drain()
	gone, vanish := context.WithCancel(context.Background())

	var tasks sync.WaitGroup
	served, sick := make(chan error, 1), make(chan error, 1)
	tasks.Go(func() { served <- u.use.Serve(draining, p.client(gone, draining)) })
	tasks.Go(func() { u.health(draining, p, sick) })
	tasks.Go(func() { p.watch(draining, u.tell) })

	next, err = u.until(turn, p, served, sick, t)
	u.set(Draining, "")
	u.tellLogin("")
	drain()
	why := err // the result is another's by the time at which the old process leaves
	leave := func() {
		u.end(p, served, why)
		vanish()
		tasks.Wait()
	}
	if next != nil && next.process != nil {
		u.leaveTo(next, p, served, leave)
		return next, nil
	}
	leave()
	u.update(func(s *Status) { s.PID = 0 })
	return next, err
}

// until waits for the first reason to end p; nil and nil means that somebody asked for it.
func (u *unit) until(turn context.Context, p process, served, sick chan error, t *trial) (*trial, error) {
	proof, stop := t.proof(u.host.pace.proof)
	defer stop()
	for {
		select {
		case <-turn.Done():
			return nil, nil
		case <-proof:
			u.prove(t)
		case next := <-u.trials:
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
			return nil, u.because(turn, p, fmt.Errorf("use the plugin: %w", err))
		}
	}
}

// end stops p: the handler first, which has seen the end of its context and finishes its calls, then the process in
// order, then by force. All of it takes no longer than the stop timeout and what pace adds.
func (u *unit) end(p process, served chan error, why error) {
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
func (u *unit) health(ctx context.Context, p process, sick chan<- error) {
	tick := time.NewTicker(u.host.pace.healthEvery)
	defer tick.Stop()
	for misses := 0; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		call, cancel := context.WithTimeout(ctx, u.host.pace.healthIn)
		err := p.check(call)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && misses > 0:
			misses = 0
			u.recovered()
		case err != nil:
			misses++
			u.show(Degraded, fmt.Sprintf("missed %d health checks: %v", misses, err))
		}
		if misses >= u.host.pace.healthMiss {
			sick <- fmt.Errorf("missed %d health checks in a row: %w", misses, err)
			return
		}
	}
}

// tell takes over what the plugin says about its platform.
func (u *unit) tell(s State, detail, login string) {
	u.mu.Lock()
	u.told, u.toldBy = s, detail
	u.mu.Unlock()
	u.tellLogin(login)
	u.show(s, detail)
}

// recovered shows again what the plugin said last.
func (u *unit) recovered() {
	u.mu.Lock()
	s, detail := u.told, u.toldBy
	u.mu.Unlock()
	u.show(s, detail)
}

// show changes the state of an instance that is in use.
func (u *unit) show(s State, detail string) {
	u.mu.Lock()
	state := u.now.State
	u.mu.Unlock()
	if state == Ready || state == Degraded {
		u.set(s, u.text(detail))
	}
}

// pause waits until the instance may start again after err, or until another version is to be tried.
func (u *unit) pause(turn context.Context, err error) *trial {
	why := u.text(err.Error())
	if errors.Is(err, errDisabled) {
		u.log.Info("plugin is disabled", "reason", why)
		u.set(Disabled, why)
		return u.wait(turn, nil)
	}
	u.update(func(s *Status) { s.LastError = why })
	tooMany := u.failures.add(time.Now())
	switch {
	case errors.As(err, new(permanent)):
		return u.quarantine(turn, "trying again cannot help", why)
	case tooMany:
		return u.quarantine(turn, "it failed too often", why)
	}
	delay := u.failures.delay(u.host.random)
	u.log.Warn("plugin failed; it will be started again", "error", why, "delay", delay.Round(time.Millisecond))
	u.set(Backoff, "")
	return u.wait(turn, time.After(delay))
}

// wait waits for a while, for ever where it is nil, or until something else is to be done.
func (u *unit) wait(turn context.Context, while <-chan time.Time) *trial {
	select {
	case next := <-u.trials:
		return next
	case <-while:
	case <-turn.Done():
	}
	return nil
}

// quarantine waits for an operator.
func (u *unit) quarantine(turn context.Context, rule, why string) *trial {
	u.log.Error("plugin is quarantined", "reason", rule, "error", why)
	u.set(Quarantined, rule)
	return u.wait(turn, nil)
}

// maxStatusText bounds what a status quotes of a plugin, in bytes.
const maxStatusText = 4 << 10

// text makes words of a plugin fit for a status: bounded, secrets masked.
func (u *unit) text(s string) string {
	s, _ = bounded(u.mask.Replace(s), maxStatusText)
	return s
}

// set changes the state.
func (u *unit) set(state State, detail string) {
	u.update(func(s *Status) {
		if s.State != state {
			s.State, s.Since = state, time.Now()
		}
		s.Detail = detail
	})
}

// update changes the status and announces it if that made a difference.
func (u *unit) update(change func(*Status)) {
	u.mu.Lock()
	before := u.now
	change(&u.now)
	after := u.now
	u.mu.Unlock()
	if before != after {
		u.host.announce(after)
	}
}

// contained notes what holds the process in, and says what does not when that is news.
func (u *unit) contained(by []cell.Measure) {
	u.mu.Lock()
	news := !slices.Equal(missing(by), missing(u.measures))
	u.measures = by
	u.mu.Unlock()
	if m := missing(by); news && len(m) > 0 {
		u.log.Info("plugin is not fully contained", "missing", m)
	}
}

// missing are the measures that could not be taken, and why, each reason once.
func missing(measures []cell.Measure) []string {
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

func (u *unit) snapshot() Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.now
}
