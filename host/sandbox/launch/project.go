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

// A project is what Spec.Compose asks for: the services beside the container where a session's commands run. Each session has
// its own. They are started after that container, in the order of their dependencies, before the first command, and removed
// with it, whichever of the two goes first.
//
// All of them share that container's network: what it cannot reach they cannot, they need no network of the engine's, and
// their names mean the loopback address. So two services cannot listen on one port, which the failure to start then
// says. They do not share processes: what runs in a service can neither see nor end commands and their supervisor.
type project struct {
	engine   *engine
	volumes  *Volumes
	services []*service

	driver    driver.Services
	launch    *launchSpec // of the container that they are beside
	beside    string      // its id
	life      context.Context
	cancel    context.CancelFunc // ends life
	watching  sync.WaitGroup
	attending chan struct{} // holds a token while services are started again
	ending    sync.Once

	mu     sync.Mutex
	fallen []*service // have ended, and nobody has attended to that
	news   []string   // for callers; see machine.Result
}

// service is one container of a project.
type service struct {
	compose.Service
	ends    bool     // by itself
	mounted []string // the paths that its binds led to
	revived int      // how many times it was started again

	mu    sync.Mutex
	id    string // changes where another container takes its place, while attending is held
	since time.Time
	ended *driver.Condition // nil while it runs
}

const (
	// wordsDeadline bounds the reading of what a service has written last, and removeTimeout the removal of all services.
	wordsDeadline = 30 * time.Second
	removeTimeout = time.Minute
	// healthPatience bounds the wait for one service to become healthy.
	healthPatience = 3 * time.Minute
	// The state of a service that is being waited for is asked for at growing intervals.
	firstLook, lastLook = 50 * time.Millisecond, time.Second
	// maxLastWords is how much of a service's output goes with the news of its end.
	maxLastWords = 2 << 10
)

// errNoServices is what a specification with a project gets from a driver that cannot look after one.
var errNoServices = fmt.Errorf("%w: this engine runs no services: remove compose from [sandbox]", machine.ErrUnavailable)

// projectVolume is the engine's volume of a project's. A dot keeps its name apart from those of the configuration.
func projectVolume(session, name string) Volume {
	return Volume{Name: "compose." + name, Session: session, project: true}
}

// offerNames lets programs in a container know its services, and its main service's environment.
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

// startProject starts the services beside a container that has been greeted, and waits until they are healthy. A failure
// removes what it has made.
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

// run makes and starts the container of a service.
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

// serviceContainer describes the container of a service beside another.
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

// addMounts adds what the service mounts. The sources of binds stay open until it runs.
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

// wanted is a state that a service is waited for in.
type wanted struct {
	notice, late string                                         // for the caller that waits: what for, and what has not come in time
	reached      func(driver.Condition) (is bool, never string) // never says why it will not be reached
}

// state is what a dependency asks for.
func state(d compose.Dependency) wanted {
	if d.Ended {
		return wanted{"to end", "has not ended", hasEnded}
	}
	return wanted{"to be healthy", "is not healthy", isHealthy}
}

// isHealthy reports whether a service is, or runs if it has no check.
func isHealthy(now driver.Condition) (bool, string) {
	switch {
	case !now.Running:
		return false, endOf(now)
	case now.Health == "unhealthy":
		return false, "is unhealthy"
	}
	return now.Health == "" || now.Health == "healthy", ""
}

// hasEnded reports whether a service has, and well.
func hasEnded(now driver.Condition) (bool, string) {
	if !now.Running && (now.ExitCode != 0 || now.OOM) {
		return false, endOf(now)
	}
	return !now.Running, ""
}

// await waits until a service is in a state.
func (p *project) await(ctx context.Context, name string, w wanted) error {
	at := slices.IndexFunc(p.services, func(s *service) bool { return s.Name == name })
	if at < 0 {
		return nil // the main service, which is there
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

// endOf says how a service has ended.
func endOf(c driver.Condition) string {
	if c.Gone {
		return "was removed from the engine"
	}
	if c.OOM {
		return fmt.Sprintf("ran out of memory (exit code %d)", c.ExitCode)
	}
	return fmt.Sprintf("has ended with exit code %d", c.ExitCode)
}

// failure is the error for a service that does not come up, with its last words.
func (p *project) failure(s *service, what string, c driver.Condition) error {
	text := fmt.Sprintf("service %s %s", s.Name, what)
	if check := lastWords([]byte(c.Check)); check != "" {
		text += fmt.Sprintf("; its check says %q", check)
	}
	words := p.lastWords(s.id)
	if words != "" {
		text += fmt.Sprintf("; it said last %q", words)
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

// lastWords is the end of foreign bytes as text.
func lastWords(p []byte) string {
	return strings.TrimSpace(strings.ToValidUTF8(string(p[max(0, len(p)-maxLastWords):]), "\uFFFD"))
}

// Remove implements container.Services: it ends the watching and removes the services. Their volumes stay.
func (p *project) Remove() error {
	p.ending.Do(func() {
		p.cancel()
		p.attending <- struct{}{} // for good: nothing is started again
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
