package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/install/firstparty"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/plugin/jail"
	"github.com/flynnhost/flynn/host/plugin/kind"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	toolkind "github.com/flynnhost/flynn/host/plugin/kind/tools"
)

// client is a process in the eyes of either kind.
type client struct {
	*channelkind.Client
	tools *toolkind.Client
}

// handlerFunc is a Handler made of a function.
type handlerFunc func(ctx context.Context, c client) error

func (f handlerFunc) Serve(ctx context.Context, c *kind.Conn) error {
	return f(ctx, client{channelkind.NewClient(c), toolkind.NewClient(c)})
}

// puppet is a process without a process: the supervision of real time is tested with it in virtual time.
type puppet struct {
	fail    error // of configure
	needs   kind.Lease
	lives   time.Duration // exits by itself after; 0: never
	healthy func() error
	out     chan struct{}
	once    sync.Once
}

func newPuppet() *puppet { return &puppet{out: make(chan struct{})} }

func (p *puppet) pid() int                                           { return 1 }
func (p *puppet) held() []jail.Measure                               { return nil }
func (p *puppet) version() string                                    { return "1.0.0" }
func (p *puppet) describe(context.Context) error                     { return nil }
func (p *puppet) configure(context.Context) error                    { return p.fail }
func (p *puppet) watch(context.Context, func(State, string, string)) {}
func (p *puppet) use(gone, draining context.Context) *kind.Conn      { return &kind.Conn{} }
func (p *puppet) lease() kind.Lease                                  { return p.needs }
func (p *puppet) stopTimeout() time.Duration                         { return 10 * time.Second }
func (p *puppet) exited() <-chan struct{}                            { return p.out }
func (p *puppet) failure() error                                     { return errors.New("exit status 1") }
func (p *puppet) kill()                                              { p.once.Do(func() { close(p.out) }) }

func (p *puppet) check(context.Context) error {
	if p.healthy == nil {
		return nil
	}
	return p.healthy()
}

func (p *puppet) shutdown(context.Context) { p.kill() }

// theatre runs one instance with puppets and notes the states with their times.
type theatre struct {
	*Host
	began time.Time
	mu    sync.Mutex
	acts  []Status
}

func play(t *testing.T, next func(n int) (*puppet, error), use Handler) (*theatre, func()) {
	return playWith(t, nil, next, use)
}

// playWith is play for an instance with a lease.
func playWith(t *testing.T, l kind.Lease, next func(n int) (*puppet, error), use Handler) (*theatre, func()) {
	th := &theatre{began: time.Now()}
	th.Host = &Host{
		log: slog.New(slog.DiscardHandler), timeouts: defaultTimeouts(), supervisors: map[string]*supervisor{}, logs: map[string]*recent{}, changed: make(chan struct{}),
		store: &Store{dir: t.TempDir(), shelf: func() firstparty.Shelf { return firstparty.Shelf{} }}, provided: map[string]bool{}, random: rand.Float64, config: Config{Kinds: AllKinds()},
	}
	th.config.Events = event.Only(func(s StateChanged) {
		th.mu.Lock()
		defer th.mu.Unlock()
		th.acts = append(th.acts, s.Status)
	})
	n := 0
	th.start = func(context.Context, *supervisor, launchSpec) (process, error) {
		n++
		p, err := next(n)
		if err != nil {
			return nil, err
		}
		if p.lives > 0 {
			time.AfterFunc(p.lives, p.kill)
		}
		return p, nil
	}
	if err := th.Add(Instance{Name: "one", Plugin: "actor", Kind: channelkind.Name, Lease: l}, use); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	u := th.supervisors["one"]
	done := make(chan struct{})
	go func() {
		defer close(done)
		u.run(ctx)
	}()
	return th, func() { stop(); <-done }
}

// count tells how often the instance came into a state.
func (th *theatre) count(s State) int {
	th.mu.Lock()
	defer th.mu.Unlock()
	n, last := 0, State("")
	for _, a := range th.acts {
		if a.State == s && last != s {
			n++
		}
		last = a.State
	}
	return n
}

var idle = handlerFunc(func(ctx context.Context, _ client) error {
	<-ctx.Done()
	return nil
})

func TestFiveQuickFailuresQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th, stop := play(t, func(int) (*puppet, error) { return nil, errors.New("no") }, idle)
		defer stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		s := th.Status()[0]
		if s.State != Quarantined || s.Restarts != quarantineAfter-1 || s.Since.Sub(th.began) > 31*time.Second {
			t.Errorf("status is %+v, %v after the start", s, s.Since.Sub(th.began))
		}
	})
}

func TestRestartEndsQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th, stop := play(t, func(n int) (*puppet, error) {
			if n <= quarantineAfter {
				return nil, errors.New("no")
			}
			return newPuppet(), nil
		}, idle)
		defer stop()
		time.Sleep(time.Hour)
		if err := th.Restart("one"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := th.Status()[0]; s.State != Ready {
			t.Errorf("status is %+v", s)
		}
	})
}

func TestPermanentErrorsQuarantineAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th, stop := play(t, func(int) (*puppet, error) {
			p := newPuppet()
			p.fail = permanent{errors.New("port: want a number")}
			return p, nil
		}, idle)
		defer stop()
		synctest.Wait()
		if s := th.Status()[0]; s.State != Quarantined || s.Restarts != 0 {
			t.Errorf("status is %+v", s)
		}
	})
}

func TestRareFailuresNeverQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th, stop := play(t, func(int) (*puppet, error) {
			p := newPuppet()
			p.lives = 11 * time.Minute
			return p, nil
		}, idle)
		defer stop()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := th.count(Ready); n < 100 || th.count(Quarantined) > 0 {
			t.Errorf("ready %d times, quarantined %d times in a day", n, th.count(Quarantined))
		}
		for _, u := range th.supervisors {
			if u.failures.streak > 1 {
				t.Errorf("the streak is %d although every life was calm", u.failures.streak)
			}
		}
	})
}

func TestThreeMissedHealthChecksEndTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th, stop := play(t, func(n int) (*puppet, error) {
			p := newPuppet()
			if n == 1 {
				p.healthy = func() error { return errors.New("hangs") }
			}
			return p, nil
		}, idle)
		defer stop()
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if s := th.Status()[0]; s.State != Degraded || s.Detail != "missed 2 health checks: hangs" {
			t.Errorf("after two misses: %+v", s)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if s := th.Status()[0]; s.State != Ready || s.LastError != "missed 3 health checks in a row: hangs" {
			t.Errorf("after three misses: %+v", s)
		}
	})
}

func TestOneMissIsForgiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		th, stop := play(t, func(int) (*puppet, error) {
			p := newPuppet()
			p.healthy = func() error {
				if calls++; calls%3 == 0 {
					return nil
				}
				return errors.New("slow")
			}
			return p, nil
		}, idle)
		defer stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := th.Status()[0]; s.Restarts > 0 {
			t.Errorf("status is %+v", s)
		}
	})
}

func TestHandlerThatReturnsEarlyIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th, stop := play(t, func(int) (*puppet, error) { return newPuppet(), nil },
			handlerFunc(func(context.Context, client) error { return nil }))
		defer stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := th.Status()[0]; s.State != Quarantined || s.LastError != "use the plugin: the handler returned early" {
			t.Errorf("status is %+v", s)
		}
	})
}

func TestStopIsBoundedWhenTheHandlerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuppet()
		_, stop := play(t, func(int) (*puppet, error) { return p, nil },
			handlerFunc(func(context.Context, client) error { // as a send in flight that never answers
				<-p.out
				return nil
			}))
		synctest.Wait()
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("the stop took %v", took)
		}
	})
}

func TestDelayGrowsToACeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f failures
		now := time.Unix(0, 0)
		n := rapid.IntRange(1, 40).Draw(t, "failures")
		for range n {
			now = now.Add(time.Hour)
			if f.add(now) {
				t.Fatal("failures an hour apart quarantine")
			}
		}
		r := rapid.Float64Range(0, 0.999999).Draw(t, "random")
		d := f.delay(func() float64 { return r })
		ceiling := backoffMost
		if n <= 7 {
			ceiling = backoffFirst << (n - 1)
		}
		if d < 0 || d >= ceiling || d != time.Duration(r*float64(ceiling)) {
			t.Fatalf("delay %v after %d failures, want below %v", d, n, ceiling)
		}
	})
}

func TestQuarantineNeedsAWindow(t *testing.T) {
	for _, c := range []struct {
		every time.Duration
		want  bool
	}{{time.Second, true}, {150 * time.Second, true}, {151 * time.Second, false}, {time.Hour, false}} {
		t.Run(fmt.Sprint(c.every), func(t *testing.T) {
			var f failures
			got := false
			for i := range 20 {
				got = f.add(time.Unix(0, 0).Add(time.Duration(i)*c.every)) || got
			}
			if got != c.want {
				t.Errorf("quarantine %t, want %t", got, c.want)
			}
		})
	}
}

// tied is a lease that a test gives and takes.
type tied struct{ left, sending, epoch atomic.Int64 }

func (l *tied) Left() time.Duration    { return time.Duration(l.left.Load()) }
func (l *tied) Sending() time.Duration { return max(l.Left(), time.Duration(l.sending.Load())) }
func (l *tied) Epoch() int64           { return l.epoch.Load() }

// TestALeaseStartsAndStopsAnInstance: nothing runs without it, a short loss is a suspension of this host, and a longer one ends the process in order.
func TestALeaseStartsAndStopsAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, shutdowns := &tied{}, 0
		th, stop := playWith(t, l, func(int) (*puppet, error) {
			if l.Sending() <= 0 {
				return nil, elsewhere{l} // as launch
			}
			p := newPuppet()
			p.needs = l
			return p, nil
		}, handlerFunc(func(ctx context.Context, _ client) error {
			<-ctx.Done()
			shutdowns++
			return nil
		}))
		defer stop()
		state := func(after time.Duration) State {
			time.Sleep(after)
			synctest.Wait()
			return th.Status()[0].State
		}
		for i, c := range []struct {
			left, sending, after time.Duration
			want                 State
		}{
			{0, 0, time.Minute, Standby},
			{time.Second, 0, time.Second, Ready},
			{0, 0, 700 * time.Millisecond, Ready},
			{time.Second, 0, time.Minute, Ready},
			{0, 0, 2 * time.Second, Standby},
			{0, 0, time.Hour, Standby},
			{0, time.Second, 100 * time.Millisecond, Ready},
			{0, time.Second, time.Minute, Ready},
			{time.Second, 0, time.Second, Ready},
		} {
			l.left.Store(int64(c.left))
			l.sending.Store(int64(c.sending))
			if got := state(c.after); got != c.want {
				t.Errorf("step %d: %s, want %s", i, got, c.want)
			}
		}
		if s := th.Status()[0]; s.Restarts != 0 || s.LastError != "" || shutdowns != 1 {
			t.Errorf("%+v, %d ended in order", s, shutdowns)
		}
		if err := th.CriticalDown(); err != nil {
			t.Error(err)
		}
	})
}

// TestWhoSendsBeforeItReceives: a plugin says so, unless a setting of the instance speaks against it.
func TestWhoSendsBeforeItReceives(t *testing.T) {
	l := &tied{}
	l.sending.Store(int64(time.Second))
	for name, c := range map[string]struct {
		options channelkind.Options
		mode    string
		sends   bool
	}{
		"by default":            {mode: "cloud"},
		"apart":                 {options: channelkind.Options{SendsApart: true}, mode: "linked", sends: true},
		"together in this mode": {options: channelkind.Options{SendsApart: true, TogetherWhen: map[string]any{"mode": "linked"}}, mode: "linked"},
		"apart in this mode":    {options: channelkind.Options{SendsApart: true, TogetherWhen: map[string]any{"mode": "linked"}}, mode: "cloud", sends: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := Manifest{Options: map[kind.Name]kind.Options{channelkind.Name: &c.options}}
			got := m.lease(Instance{Kind: channelkind.Name, Settings: map[string]any{"mode": c.mode}, Lease: l})
			if sends := got.Sending() > 0; sends != c.sends || got.Left() > 0 {
				t.Errorf("it sends: %v, and receives: %v", sends, got.Left() > 0)
			}
			if m.lease(Instance{Kind: channelkind.Name, Settings: map[string]any{"mode": c.mode}}) != nil {
				t.Error("a host alone has a lease")
			}
		})
	}
}
