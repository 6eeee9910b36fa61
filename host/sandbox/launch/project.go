package launch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/compose"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// A project is the set of services that Spec.Compose names, beside the container in which a session's commands run. Each session has its
// own. They are started after that container and before the first command, in the order of their dependencies, and removed with it.
//
// All services share that container's network: they reach no more than it does, they need no network of the engine, and their names resolve
// to the loopback address. Two services can therefore not listen on the same port; the second fails to start, with its own error message.
// They do not share processes: a program in a service can neither see nor end commands and their supervisor.
type project struct {
	engine   *engine
	volumes  *Volumes
	services []*service

	driver    driver.Services
	launch    *launchSpec // of the container beside which they run
	beside    string      // id of that container
	life      context.Context
	cancel    context.CancelFunc // ends life
	watching  sync.WaitGroup
	attending chan struct{} // holds a token while services are restarted
	ending    sync.Once

	mu     sync.Mutex
	fallen []*service // have ended and were not handled yet
	news   []string   // for callers; see machine.Result
}

// service is one container of a project.
type service struct {
	compose.Service
	ends    bool     // it is expected to end by itself
	mounted []string // the real paths of its binds
	revived int      // number of restarts

	mu    sync.Mutex
	id    string // changes when the container is replaced, while attending is held
	since time.Time
	ended *driver.Condition // nil while it runs
}

const (
	// wordsDeadline bounds reading a service's last output, and removeTimeout the removal of all services.
	wordsDeadline = 30 * time.Second
	removeTimeout = time.Minute
	// healthPatience bounds the wait until one service is healthy.
	healthPatience = 3 * time.Minute
	// The state of a service that is waited for is polled at growing intervals.
	firstLook, lastLook = 50 * time.Millisecond, time.Second
	// maxLastWords bounds the part of a service's output that is quoted when it ends.
	maxLastWords = 2 << 10
)

// errNoServices is the error for a specification with a project on a driver that does not support services.
var errNoServices = fmt.Errorf("%w: this engine does not support services: remove compose from [sandbox]", machine.ErrUnavailable)

// projectVolume returns the volume on the engine for a project's volume. The dot distinguishes it from those of the configuration.
func projectVolume(session, name string) Volume {
	return Volume{Name: "compose." + name, Session: session, project: true}
}

// offerNames tells programs in a container the names of its services and the environment of its main service.
func offerNames(o *launchSpec) {
	main, ok := o.spec.Main()
	if !ok {
		return
	}
	for _, name := range o.spec.Compose.Names() {
		o.container.Hosts = append(o.container.Hosts, name+":127.0.0.1")
	}
	if o.spec.Network == spec.Allowlist { // services are not reached through the proxy
		direct := strings.Join(append([]string{"localhost", "127.0.0.1"}, o.spec.Compose.Names()...), ",")
		o.hello.Env = append(o.hello.Env, []byte("NO_PROXY="+direct), []byte("no_proxy="+direct))
	}
	for _, variable := range main.Environment {
		o.hello.Env = append(o.hello.Env, []byte(variable))
	}
}

// startProject starts the services beside a container that was greeted, and waits until they are healthy. If it fails, it removes what it
// has created.
func (l *Launcher) startProject(ctx context.Context, c *container.Container, o *launchSpec) error {
	if o.spec.Compose == nil {
		return nil
	}
	services, ok := l.config.Driver.(driver.Services)
	if !ok {
		return errNoServices
	}
	p := &project{engine: l.engine, volumes: l.Volumes, driver: services, launch: o, beside: c.ID(), attending: make(chan struct{}, 1)}
	for _, s := range o.spec.Compose.Services {
		if s.Name != o.spec.Service {
			p.services = append(p.services, &service{Service: s, ends: o.spec.Compose.Ends(s.Name)})
		}
	}
	p.life, p.cancel = context.WithCancel(context.Background())
	if err := p.start(ctx); err != nil {
		return errors.Join(err, p.Remove())
	}
	for _, s := range p.services {
		p.watching.Go(func() { p.watch(s) })
	}
	c.Services = p
	return nil
}

func (p *project) start(ctx context.Context) error {
	for _, s := range p.services {
		for _, d := range s.DependsOn {
			if d.Healthy || d.Ended {
				if err := p.await(ctx, d.Service, state(d)); err != nil {
					return err
				}
			}
		}
		machine.Notice(ctx, "starting service "+s.Name)
		if err := p.run(ctx, s); err != nil {
			return fmt.Errorf("%w: service %s does not start: %w", machine.ErrUnavailable, s.Name, err)
		}
	}
	for _, s := range p.services {
		if err := p.await(ctx, s.Name, state(compose.Dependency{Ended: s.ends})); err != nil {
			return err
		}
	}
	return nil
}

// run creates and starts the container of a service.
func (p *project) run(ctx context.Context, s *service) error {
	c := serviceContainer(p.launch, s.Service, p.beside)
	sources, err := p.addMounts(ctx, p.launch, s.Service, &c)
	if err != nil {
		return err
	}
	defer closeAll(sources)
	s.mounted = pathsOf(sources)
	s.begins()
	id, err := p.engine.create(ctx, c)
	s.mu.Lock()
	s.id = id
	s.mu.Unlock()
	if err != nil {
		p.engine.Reaper.Abandon(c.Name, err)
		return err
	}
	if err := p.engine.Driver.Start(ctx, s.id); err != nil {
		return err
	}
	return p.engine.lookAgain(ctx, sources, s.Binds)
}

func pathsOf(sources []*mounts.Source) (paths []string) {
	for _, s := range sources {
		paths = append(paths, s.Path)
	}
	return paths
}

// serviceContainer describes the container of a service beside another container.
func serviceContainer(o *launchSpec, s compose.Service, beside string) driver.Container {
	c := driver.Container{
		Key: o.container.Key, Name: o.container.Name + "-" + s.Name, Image: s.Image, Role: driver.Service, Labels: maps.Clone(o.container.Labels),
		Program: &driver.Program{
			Entrypoint: s.Entrypoint, Cmd: s.Command, Env: s.Environment, Dir: s.WorkingDir, User: s.User,
			ReadOnlyRoot: s.ReadOnly, Init: s.Init, NetworkOf: beside, Health: (*driver.HealthCheck)(s.Health),
		},
	}
	c.MemoryBytes, c.CPUs, c.PidsLimit = o.spec.Limits(s)
	c.Labels[driver.LabelService] = s.Name
	return c
}

// addMounts adds the service's mounts. The sources of binds stay open until it runs.
func (p *project) addMounts(ctx context.Context, o *launchSpec, s compose.Service, c *driver.Container) (sources []*mounts.Source, err error) {
	session := o.container.Labels[driver.LabelSession]
	for _, v := range s.Volumes {
		shared := o.spec.SharesVolume(v.Name)
		name, _, err := p.volumes.ensure(ctx, projectVolume(session, v.Name))
		if err != nil {
			return nil, err
		}
		c.Mounts = append(c.Mounts, driver.Mount{Kind: driver.Volume, Source: name, Target: v.Target, ReadOnly: v.ReadOnly, Fill: !shared})
	}
	for _, t := range s.Tmpfs {
		c.Mounts = append(c.Mounts, driver.Mount{Kind: driver.Memory, Target: t.Target, Bytes: t.Bytes})
	}
	sources, err = p.engine.openSources(ctx, spec.HostMountsOf(s))
	if err != nil {
		return nil, err
	}
	for i, b := range s.Binds {
		c.Mounts = append(c.Mounts, driver.Mount{Source: sources[i].Path, Target: b.Target, ReadOnly: b.ReadOnly, Alone: true})
	}
	return sources, nil
}

// wanted is a state to wait for.
type wanted struct {
	notice, late string                                         // for the caller: what is waited for, and the error after the deadline
	reached      func(driver.Condition) (is bool, never string) // never says why the state cannot be reached
}

// state returns the state that a dependency requires.
func state(d compose.Dependency) wanted {
	if d.Ended {
		return wanted{"to end", "has not ended", hasEnded}
	}
	return wanted{"to be healthy", "is not healthy", isHealthy}
}

// isHealthy reports whether a service is healthy, or runs if it has no health check.
func isHealthy(now driver.Condition) (bool, string) {
	switch {
	case !now.Running:
		return false, endOf(now)
	case now.Health == "unhealthy":
		return false, "is unhealthy"
	}
	return now.Health == "" || now.Health == "healthy", ""
}

// hasEnded reports whether a service has ended successfully.
func hasEnded(now driver.Condition) (bool, string) {
	if !now.Running && (now.ExitCode != 0 || now.OOM) {
		return false, endOf(now)
	}
	return !now.Running, ""
}

// await waits until a service has reached a state.
func (p *project) await(ctx context.Context, name string, w wanted) error {
	at := slices.IndexFunc(p.services, func(s *service) bool { return s.Name == name })
	if at < 0 {
		return nil // the main service, which runs already
	}
	s := p.services[at]
	ctx, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	for pause, told := firstLook, false; ; pause = min(2*pause, lastLook) {
		now, err := p.driver.Condition(ctx, s.id)
		if ctx.Err() != nil {
			return p.failure(s, fmt.Sprintf("%s after %v", w.late, healthPatience), now)
		}
		if err != nil {
			return err
		}
		is, never := w.reached(now)
		switch {
		case never != "":
			return p.failure(s, never, now)
		case is:
			return nil
		case !told:
			machine.Notice(ctx, "waiting for service "+s.Name+" "+w.notice)
			told = true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// endOf describes how a service has ended.
func endOf(c driver.Condition) string {
	if c.Gone {
		return "was removed from the engine"
	}
	if c.OOM {
		return fmt.Sprintf("ran out of memory (exit code %d)", c.ExitCode)
	}
	return fmt.Sprintf("has ended with exit code %d", c.ExitCode)
}

// failure returns the error for a service that does not start, with its last output.
func (p *project) failure(s *service, what string, c driver.Condition) error {
	text := fmt.Sprintf("service %s %s", s.Name, what)
	if check := lastWords([]byte(c.Check)); check != "" {
		text += fmt.Sprintf("; its health check printed %q", check)
	}
	words := p.lastWords(s.id)
	if words != "" {
		text += fmt.Sprintf("; its last output was %q", words)
	}
	if low := strings.ToLower(words); strings.Contains(low, "address already in use") || strings.Contains(low, "address in use") {
		text += ": services of a session share one network, so give each a port of its own"
	}
	return fmt.Errorf("%w: %s", machine.ErrUnavailable, text)
}

func (p *project) lastWords(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), wordsDeadline)
	defer cancel()
	out, err := p.driver.LastOutput(ctx, id, maxLastWords)
	if err != nil {
		return ""
	}
	return lastWords(out)
}

// lastWords returns the end of arbitrary bytes as text.
func lastWords(p []byte) string {
	return strings.TrimSpace(strings.ToValidUTF8(string(p[max(0, len(p)-maxLastWords):]), "\uFFFD"))
}

// Remove implements container.Services: it stops watching and removes the services. Their volumes stay.
func (p *project) Remove() error {
	p.ending.Do(func() {
		p.cancel()
		p.attending <- struct{}{} // never released: nothing is restarted afterwards
		p.watching.Wait()
	})
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	var made []*service
	for _, s := range p.services {
		if s.id != "" {
			made = append(made, s)
		}
	}
	return reaper.Each(made, func(s *service) error { return p.engine.Reaper.Remove(ctx, s.id) })
}
