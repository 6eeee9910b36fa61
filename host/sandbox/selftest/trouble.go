package selftest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// troubled is a separate host on the owner's engine, behind a middleman.
type troubled struct {
	between  *middleman
	driver   driver.Driver
	hangUp   func() error // closes the driver
	manager  *sandbox.Manager
	instance string
	spec     spec.Spec
	trusting *troubled // the same without deadlines, for controls
	config   sandbox.Config
	namesake bool // another host that starts has the same instance name
	stop     context.CancelFunc
	work     sync.WaitGroup
}

// openTroubled creates both hosts.
func (s *site) openTroubled(c sandbox.Config) error {
	host, err := s.troubledHost(c, careful, docker.Weakness{})
	if err != nil {
		return err
	}
	s.subject.Troubled = host
	host.trusting, err = s.troubledHost(c, trusting, docker.Weakness{Trusting: true})
	return err
}

func (s *site) troubledHost(c sandbox.Config, name string, w docker.Weakness) (*troubled, error) {
	t := &troubled{between: s.between, driver: c.Driver, hangUp: func() error { return nil }, instance: s.instance + "-" + name, spec: s.spec}
	if s.engine != nil {
		through, err := s.engine.Through(s.between.dial)
		if err != nil {
			return nil, err
		}
		t.driver, t.hangUp, c.Driver = through, through.Close, through.Weakened(w)
	}
	c.Instance, c.WorkspaceRoot = t.instance, filepath.Join(s.scratch, name)
	t.config, t.namesake = c, w.Trusting
	var err error
	if t.manager, err = sandbox.New(c); err != nil {
		return nil, errors.Join(err, t.hangUp())
	}
	run, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.work.Go(func() { _ = t.manager.Run(run) }) // it ends with its context, and logs its errors
	return t, nil
}

func (t *troubled) close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	err := t.manager.DestroyAll(ctx)
	if t.between != nil {
		err = errors.Join(t.between.enter(working), err)
	}
	t.stop()
	t.work.Wait()
	return errors.Join(err, t.hangUp(), t.trusting.close(ctx))
}

// The time within which a host has to report that its engine is in trouble, and to work with it again.
const (
	troubleTold     = 10 * time.Second
	troubleOvercome = 45 * time.Second
)

// troubleProbes confront a host with an engine in trouble. In the controls the host sets no deadlines.
func troubleProbes() []Probe {
	const row, setting = "engine failure", "report this: an engine in trouble must not take the host with it"
	var probes []Probe
	for _, p := range []struct {
		name, why string
		trouble   trouble
	}{
		{"stopped", "a turn waits for ever for a sandbox that does not come", stopped},
		{"silent", "an engine that hangs hangs everybody", silent},
		{"slow", "an engine that takes 30 s for each answer holds up everybody", slow},
		{"unheard", "a container that the host does not know of runs for ever", deaf},
		{"disk-full", "a full disk is reported as something else", diskFull},
	} {
		probes = append(probes, Probe{
			Name: "trouble/" + p.name, Row: row, Why: p.why, Setting: setting, Run: troubling(p.trouble), Control: always(Control{Trusting: true}), Engine: true,
		})
	}
	return append(probes, Probe{
		Name: "instances/tidying", Row: "crash and second instance", Why: "a second Flynn on this engine takes the first one's containers for leftovers",
		Setting: "report this: each host may end its own containers only", Run: tidying, Control: always(Control{Trusting: true}),
	})
}

// tidying lets another host clean up the engine, as after a crash. That of the control has the name of the first host, does not see from
// its own folder that the first one lives, and does not see that the containers belong to another folder.
func tidying(ctx context.Context, s *Subject) (Finding, error) {
	t := s.Troubled
	session := message.WorkspaceKey("tidying-" + random())
	victim, err := t.manager.Get(ctx, session, "verify", t.spec)
	if err != nil {
		return Finding{}, err
	}
	defer func() { _ = t.manager.Destroy(ctx, session) }() // otherwise the end of the site does
	mark := machine.Command{Script: "cat /tmp/mark 2>/dev/null; echo here >/tmp/mark", Timeout: scriptTimeout}
	if _, err := victim.Exec(ctx, mark); err != nil {
		return Finding{}, err
	}
	if err := t.comeAlong(ctx); err != nil {
		return Finding{}, err
	}
	r, err := victim.Exec(ctx, mark)
	if err != nil || string(r.Stdout) != "here\n" {
		return breached("its container is gone"), nil
	}
	return held("its container is as it was"), nil
}

// comeAlong starts another host for a moment.
func (t *troubled) comeAlong(ctx context.Context) error {
	c := t.config
	c.WorkspaceRoot += "-second"
	if t.namesake {
		c.Driver = placeless{t.config.Driver.(*docker.Driver)}
	} else {
		c.Instance += "-second"
	}
	second, err := sandbox.New(c)
	if err != nil {
		return err
	}
	return errors.Join(second.Reconcile(ctx), second.DestroyAll(ctx))
}

// placeless is an engine whose containers do not record the place of their host.
type placeless struct{ *docker.Driver }

func (p placeless) List(ctx context.Context, instance string) ([]driver.Owned, error) {
	owned, err := p.Driver.List(ctx, instance)
	for i := range owned {
		delete(owned[i].Labels, driver.LabelPlace)
	}
	return owned, err
}

// troubling requests a session from an engine in trouble, and again when it works.
func troubling(trouble trouble) attack {
	return func(ctx context.Context, s *Subject) (f Finding, err error) {
		t := s.Troubled
		defer func() { err = errors.Join(err, t.between.enter(working)) }()
		if err := t.between.enter(trouble); err != nil {
			return Finding{}, err
		}
		session := message.WorkspaceKey("trouble-" + random())
		took, failure := t.use(ctx, session, troubleTold)
		switch {
		case failure == nil:
			return Finding{}, errOddTrouble
		case took >= troubleTold:
			return breached("nothing was reported within %v", troubleTold), nil
		case !errors.Is(failure, machine.ErrUnavailable):
			return breached("it is not reported as an engine in trouble: %.200v", failure), nil
		}
		if err := t.between.enter(working); err != nil {
			return Finding{}, err
		}
		return t.overcome(ctx, session, took)
	}
}

// use runs a command in a session.
func (t *troubled) use(ctx context.Context, session message.WorkspaceKey, limit time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	m, err := t.manager.Get(ctx, session, "verify", t.spec)
	if err == nil {
		_, err = m.Exec(ctx, machine.Command{Script: "true", Timeout: limit})
	}
	return time.Since(began), err
}

// overcome uses the same session again, and looks for surplus containers.
func (t *troubled) overcome(ctx context.Context, session message.WorkspaceKey, told time.Duration) (Finding, error) {
	if _, err := t.use(ctx, session, troubleOvercome); err != nil {
		return breached("with the engine back, it still fails: %.200v", err), nil
	}
	if err := t.manager.Destroy(ctx, session); err != nil {
		return Finding{}, fmt.Errorf("end the session: %w", err)
	}
	if left, err := t.leftover(ctx); err != nil || left > 0 {
		return breached("%d containers are left of one session", left), err
	}
	return held("reported after %v, and overcome", told.Round(time.Millisecond)), nil
}

// leftover counts containers that the host does not remove soon by itself.
func (t *troubled) leftover(ctx context.Context) (int, error) {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for began := time.Now(); ; {
		left, err := t.driver.List(ctx, t.instance)
		if err != nil || len(left) == 0 || time.Since(began) > troubleOvercome {
			return len(left), err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return len(left), ctx.Err()
		}
	}
}
