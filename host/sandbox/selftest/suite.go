package selftest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Config configures a Suite.
type Config struct {
	Driver driver.Driver
	// Spec is the sandbox to attack, as configured.
	Spec spec.Spec
	// Supervisor and Program are the paths of flynn-sandboxd and flynn-probe.
	Supervisor, Program string
	// Dir is an absolute path that the engine can mount from. A folder is created in it and removed again.
	Dir string
	// Controls enables the attacks on weak containers as well. For some seconds such containers run the suite's own program only, but some
	// of them with all privileges. Only a container engine can make those.
	Controls bool
	// Only selects probes by name; nil selects all.
	Only func(name string) bool
	// Progress, if set, is called for each outcome.
	Progress func(Outcome)
	Log      *slog.Logger
	// MountRules are the rules for the sandbox's mounts.
	MountRules func() mounts.Rules
}

// Suite attacks one sandbox.
type Suite struct{ config Config }

// New checks the configuration.
func New(c Config) (*Suite, error) {
	switch {
	case c.Driver == nil:
		return nil, errors.New("self-test: no driver")
	case !filepath.IsAbs(c.Dir):
		return nil, fmt.Errorf("self-test: folder %q is not an absolute path", c.Dir)
	}
	engine, _ := c.Driver.(*docker.Driver)
	if c.Controls && engine == nil {
		return nil, errors.New("self-test: only a container engine can make the weak containers of the controls")
	}
	if c.Only == nil {
		c.Only = func(string) bool { return true }
	}
	if !slices.ContainsFunc(ProbesOf(c.Driver), func(p Probe) bool { return c.Only(p.Name) }) {
		return nil, errors.New("self-test: no probe is chosen")
	}
	if c.Progress == nil {
		c.Progress = func(Outcome) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Suite{config: c}, nil
}

// Run creates two sessions, tries every probe on the first, and removes everything. An error means that the result is incomplete.
func (s *Suite) Run(ctx context.Context) (report Report, err error) {
	engine, err := s.config.Driver.Capabilities(ctx)
	if err != nil {
		return Report{}, err
	}
	spec := s.config.Spec.WithDefaults()
	report = Report{
		Engine: engine.Engine, Address: engine.Address, Image: spec.Image, Network: spec.Network,
		Outcomes: []Outcome{},
	}
	site, err := openSite(ctx, s.config, engine)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, site.close(ctx)) }()
	for _, p := range ProbesOf(s.config.Driver) {
		if !s.config.Only(p.Name) {
			continue
		}
		if ctx.Err() != nil {
			return report, interrupted(ctx)
		}
		o := site.attack(ctx, p)
		if s.config.Controls {
			began := time.Now()
			o.Control = site.control(ctx, p)
			o.Control.TookMS = time.Since(began).Milliseconds()
		}
		if ctx.Err() != nil {
			return report, interrupted(ctx) // the probe under way proves nothing
		}
		report.Add(o)
		s.config.Progress(o)
	}
	return report, nil
}

func interrupted(ctx context.Context) error {
	return fmt.Errorf("the self-test was interrupted and is incomplete: %w", ctx.Err())
}

// probeTimeout bounds one probe, whatever its own deadlines.
const probeTimeout = 2 * time.Minute

// attack tries a probe on the sandbox.
func (s *site) attack(ctx context.Context, p Probe) Outcome {
	began := time.Now()
	f := s.try(ctx, p, &s.subject)
	if why := s.excuse(p); why != "" && f.Status == Fail {
		f = allowed("%s", why)
	}
	o := Outcome{Name: p.Name, Row: p.Row, Why: p.Why, Status: f.Status, Detail: f.Detail, TookMS: time.Since(began).Milliseconds()}
	switch {
	case strings.HasPrefix(o.Detail, untried):
		o.Setting = "nothing is known to be open: find out why it could not be tried, and run the self-test again"
	case o.Status != Pass:
		o.Setting = p.Setting
	}
	return o
}

// excuse returns why an attack may succeed here: the engine says that it cannot hold this, and the configuration does not demand it. A filter
// of system calls is demanded unless it is only preferred.
func (s *site) excuse(p Probe) string {
	for _, l := range s.has.Lacks {
		if l.Limit == p.Limit {
			return "this machine cannot hold it: " + l.Why
		}
	}
	if p.Feature == "" || slices.Contains(s.has.Features, p.Feature) || slices.Contains(s.spec.Requires, p.Feature) ||
		p.Feature == driver.Seccomp && !s.spec.Unfiltered() {
		return ""
	}
	return fmt.Sprintf("the engine does not claim %s, and [sandbox] does not require it", p.Feature)
}

// untried begins the finding of an attack that could not be tried, for which its Setting is no advice.
const untried = "could not be tried: "

// try runs the attack and checks the neighbour.
func (s *site) try(ctx context.Context, p Probe, subject *Subject) Finding {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	f, err := p.Run(ctx, subject)
	if err != nil {
		f = Finding{Fail, untried + err.Error()}
	}
	if err := s.healthy(ctx); err != nil {
		f = Finding{Fail, fmt.Sprintf("the second session was affected: %v", err)}
	}
	return f
}

// control tries the probe where the attack must succeed.
func (s *site) control(ctx context.Context, p Probe) *ControlOutcome {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	w, done, err := s.weaken(ctx, p.Control(&s.subject))
	if err != nil {
		return &ControlOutcome{Detail: err.Error()}
	}
	defer done()
	weak := s.subject
	weak.Proxied, weak.Logged = w, nil
	if p.Control(&s.subject).Trusting {
		weak.Troubled = s.subject.Troubled.trusting
	}
	weak.Target, weak.Dir, weak.Spec.Network = w, w.dir, "none"
	f, err := p.Run(ctx, &weak)
	if err != nil {
		return &ControlOutcome{Detail: fmt.Sprintf("could not be tried: %v", err)}
	}
	return &ControlOutcome{Failed: f.Status != Pass, Detail: f.Detail}
}
