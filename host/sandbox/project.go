package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/compose"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// A project is what Spec.Compose asks for: the services beside the container where a session's commands run. Each session has
// its own. They are started after that container, in the order of their dependencies, before the first command, and removed
// with it, whichever of the two goes first.
//
// All of them share that container's network: what it cannot reach they cannot, they need no network of the engine's, and
// their names mean the loopback address. So two services cannot listen on one port, which the failure to start then
// says. They do not share processes: what runs in a service can neither see nor end commands and their supervisor.
type project struct {
	m        *Manager
	owner    workspace.Owner
	services []*service

	driver   Services
	launch   launchSpec // of the container that they are beside
	beside   string     // its id
	life     context.Context
	cancel   context.CancelFunc // ends life
	watching sync.WaitGroup
	turn     chan struct{} // holds a token while somebody starts services again

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
	id    string // changes where another container takes its place, while the project's turn is held
	since time.Time
	ended *Condition // nil while it runs
}

// LabelService is a service's name, on its container.
const LabelService = "flynn.service"

const (
	// healthPatience bounds the wait for one service to become healthy.
	healthPatience = 3 * time.Minute
	// The state of a service that is being waited for is asked for at growing intervals.
	firstLook, lastLook = 50 * time.Millisecond, time.Second
	// maxLastWords is how much of a service's output goes with the news of its end.
	maxLastWords = 2 << 10
)

// main is the service where commands run.
func (s Spec) main() (compose.Service, bool) {
	if s.Compose == nil {
		return compose.Service{}, false
	}
	return s.Compose.Service(s.Service)
}

// errNoServices is what a specification with a project gets from a driver that cannot look after one.
var errNoServices = fmt.Errorf("%w: this engine runs no services: remove compose from [sandbox]", machine.ErrUnavailable)

// validateProject refuses what no driver could honour.
func (s Spec) validateProject() error {
	if s.Compose == nil {
		return nil
	}
	if _, ok := s.main(); !ok {
		return fmt.Errorf("sandbox: %s has no service %q: set service in [sandbox] to one of %s", s.Compose.File, s.Service,
			strings.Join(s.Compose.Names(), ", "))
	}
	switch {
	case s.Dockerfile != "":
		return errors.New("sandbox: dockerfile and compose both say what the image is: remove one of them from [sandbox]")
	case s.Network == "host":
		return errors.New(`sandbox: services need a network of their own: set network in [sandbox] to none, allowlist or bridge`)
	case s.Runtime != "" && s.Runtime != "runc":
		return fmt.Errorf("sandbox: services share their network, which runtime %s does not: remove compose or runtime from [sandbox]", s.Runtime)
	}
	for _, service := range s.Compose.Services {
		if err := s.validateService(service); err != nil {
			return fmt.Errorf("sandbox: %s:%d: services.%s.%w", s.Compose.File, service.Line, service.Name, err)
		}
	}
	return nil
}

func (s Spec) validateService(service compose.Service) error {
	switch {
	case service.MemoryBytes > s.MemoryBytes:
		return errors.New("mem_limit is above memory_limit of the sandbox: lower the one or raise the other")
	case service.CPUs > s.CPUs:
		return errors.New("cpus is above cpu_limit of the sandbox: lower the one or raise the other")
	case service.PidsLimit > s.PidsLimit:
		return errors.New("pids_limit is above that of the sandbox: lower the one or raise the other")
	}
	if service.Name == s.Service {
		for _, other := range s.Compose.Services {
			if slices.Contains(other.DependsOn, compose.Dependency{Service: s.Service, Ended: true}) {
				return fmt.Errorf("depends_on: %s waits for the end of the service where commands run, which does not end: remove that", other.Name)
			}
			if slices.Contains(other.DependsOn, compose.Dependency{Service: s.Service, Healthy: true}) {
				return fmt.Errorf("healthcheck is not looked at where commands run: let %s depend on service_started", other.Name)
			}
		}
		if service.User != "" {
			return errors.New("user is not honoured where commands run: they are their workspace's owner's: remove it")
		}
		return nil // its places are judged with the sandbox's own
	}
	if err := mounts.CheckTargets("", targetsOf(service)); err != nil {
		return fmt.Errorf("volumes: %w", err)
	}
	return nil
}

func targetsOf(s compose.Service) (targets []string) {
	for _, b := range s.Binds {
		targets = append(targets, b.Target)
	}
	for _, v := range s.Volumes {
		targets = append(targets, v.Target)
	}
	for _, t := range s.Tmpfs {
		targets = append(targets, t.Target)
	}
	return targets
}

// withLimits lets the main service ask for less than the sandbox has.
func (s Spec) withLimits() Spec {
	if main, ok := s.main(); ok {
		s.MemoryBytes = lower(main.MemoryBytes, s.MemoryBytes)
		s.CPUs = lower(main.CPUs, s.CPUs)
		s.PidsLimit = lower(main.PidsLimit, s.PidsLimit)
	}
	return s
}

// lower is what a service asks for, if anything, and never more than the limit.
func lower[T cmp.Ordered](asked, limit T) T {
	var none T
	if asked == none {
		return limit
	}
	return min(asked, limit)
}

// projectVolume is the engine's volume of a project's. A dot keeps its name apart from those of the configuration.
func projectVolume(session, name string) volume {
	return volume{name: "compose." + name, session: session, project: true}
}

// offerNames lets programs in a container know its services, and its main service's environment.
func offerNames(o *launchSpec, spec Spec) {
	main, ok := spec.main()
	if !ok {
		return
	}
	for _, name := range spec.Compose.Names() {
		o.container.Hosts = append(o.container.Hosts, name+":127.0.0.1")
	}
	if spec.Network == allowlist { // services are not reached through the proxy
		direct := strings.Join(append([]string{"localhost", "127.0.0.1"}, spec.Compose.Names()...), ",")
		o.hello.Env = append(o.hello.Env, []byte("NO_PROXY="+direct), []byte("no_proxy="+direct))
	}
	for _, variable := range main.Environment {
		o.hello.Env = append(o.hello.Env, []byte(variable))
	}
}

// startProject starts the services beside a container that has been greeted, and waits until they are healthy. A failure
// removes what it has made.
func (m *Manager) startProject(ctx context.Context, o launchSpec, id string) (*project, error) {
	spec := o.mounts.spec
	if spec.Compose == nil {
		return nil, nil
	}
	driver, ok := m.config.Driver.(Services)
	if !ok {
		return nil, errNoServices
	}
	p := &project{m: m, owner: o.mounts.owner, driver: driver, launch: o, beside: id, turn: make(chan struct{}, 1)}
	for _, s := range spec.Compose.Services {
		if s.Name != spec.Service {
			p.services = append(p.services, &service{Service: s, ends: spec.Compose.Ends(s.Name)})
		}
	}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	p.life, p.cancel = context.WithCancel(context.Background())
	for _, s := range p.services {
		p.watching.Go(func() { p.watch(s) })
	}
	return p, nil
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
	sources, err := p.furnish(ctx, p.launch, s.Service, &c)
	if err != nil {
		return err
	}
	defer closeAll(sources)
	s.mounted = pathsOf(sources)
	s.begins()
	id, err := create(ctx, p.m.config.Driver, p.m.log, c)
	s.mu.Lock()
	s.id = id
	s.mu.Unlock()
	if err != nil {
		p.m.reaper.Abandon(c.Name, err)
		return err
	}
	if err := p.m.config.Driver.Start(ctx, s.id); err != nil {
		return err
	}
	return p.m.lookAgain(ctx, sources, s.Binds)
}

func pathsOf(sources []*mounts.Source) (paths []string) {
	for _, s := range sources {
		paths = append(paths, s.Path)
	}
	return paths
}

// serviceContainer describes the container of a service beside another.
func serviceContainer(o launchSpec, s compose.Service, beside string) Container {
	spec := o.mounts.spec
	c := Container{
		Key: o.container.Key, Name: o.container.Name + "-" + s.Name, Image: s.Image, Role: Service, Labels: map[string]string{},
		MemoryBytes: lower(s.MemoryBytes, spec.MemoryBytes), CPUs: lower(s.CPUs, spec.CPUs), PidsLimit: lower(s.PidsLimit, spec.PidsLimit),
		Program: &Program{
			Entrypoint: s.Entrypoint, Cmd: s.Command, Env: s.Environment, Dir: s.WorkingDir, User: s.User,
			ReadOnlyRoot: s.ReadOnly, Init: s.Init, NetworkOf: beside,
		},
	}
	if h := s.Health; h != nil {
		c.Program.Health = &HealthCheck{Test: h.Test, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries}
	}
	for name, value := range o.container.Labels {
		c.Labels[name] = value
	}
	c.Labels[LabelService] = s.Name
	return c
}

// furnish adds what the service mounts. The sources of binds stay open until it runs.
func (p *project) furnish(ctx context.Context, o launchSpec, s compose.Service, c *Container) (sources []*mounts.Source, err error) {
	session := o.container.Labels[LabelSession]
	for _, v := range s.Volumes {
		shared := o.mounts.spec.sharesVolume(v.Name)
		name, _, err := p.m.volumes.ensure(ctx, projectVolume(session, v.Name))
		if err != nil {
			return nil, err
		}
		c.Mounts = append(c.Mounts, Mount{Kind: Volume, Source: name, Target: v.Target, ReadOnly: v.ReadOnly, Fill: !shared})
	}
	for _, t := range s.Tmpfs {
		c.Mounts = append(c.Mounts, Mount{Kind: Memory, Target: t.Target, Bytes: t.Bytes})
	}
	sources, err = p.m.openSources(ctx, hostMountsOf(s))
	if err != nil {
		return nil, err
	}
	for i, b := range s.Binds {
		c.Mounts = append(c.Mounts, Mount{Source: sources[i].Path, Target: b.Target, ReadOnly: b.ReadOnly, Alone: true})
	}
	return sources, nil
}

// sharesVolume reports whether commands see a project's volume, too. Then it is theirs from the start, and the engine copies
// nothing from an image into it, because it would take over the owner as well.
func (s Spec) sharesVolume(name string) bool {
	main, _ := s.main()
	return slices.ContainsFunc(main.Volumes, func(v compose.Volume) bool { return v.Name == name })
}

func hostMountsOf(s compose.Service) (wanted []HostMount) {
	for _, b := range s.Binds {
		wanted = append(wanted, HostMount{Source: b.Source, Target: b.Target, Writable: !b.ReadOnly})
	}
	return wanted
}

// wanted is a state that a service is waited for in.
type wanted struct {
	notice, late string                                  // for who waits: what for, and what has not come in time
	reached      func(Condition) (is bool, never string) // never says why it will not be reached
}

// state is what a dependency asks for.
func state(d compose.Dependency) wanted {
	if d.Ended {
		return wanted{"to end", "has not ended", hasEnded}
	}
	return wanted{"to be healthy", "is not healthy", isHealthy}
}

// isHealthy reports whether a service is, or runs if it has no check.
func isHealthy(now Condition) (bool, string) {
	switch {
	case !now.Running:
		return false, endOf(now)
	case now.Health == "unhealthy":
		return false, "is unhealthy"
	}
	return now.Health == "" || now.Health == "healthy", ""
}

// hasEnded reports whether a service has, and well.
func hasEnded(now Condition) (bool, string) {
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
func endOf(c Condition) string {
	if c.Gone {
		return "was removed from the engine"
	}
	if c.OOM {
		return fmt.Sprintf("has ended for want of memory (exit code %d)", c.ExitCode)
	}
	return fmt.Sprintf("has ended with exit code %d", c.ExitCode)
}

// failure says what became of a service, with its last words.
func (p *project) failure(s *service, what string, c Condition) error {
	text := fmt.Sprintf("%s: service %s %s", machine.ErrUnavailable, s.Name, what)
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
	return serviceError{text}
}

// serviceError is why a project does not come up.
type serviceError struct{ text string }

func (e serviceError) Error() string { return e.text }
func (e serviceError) Unwrap() error { return machine.ErrUnavailable }

func (p *project) lastWords(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), startDeadline)
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

// remove ends the watching and the services. Their volumes stay.
func (p *project) remove() error {
	if p == nil {
		return nil
	}
	if p.cancel != nil {
		p.cancel()
		p.turn <- struct{}{} // for good: nothing is started again
		p.watching.Wait()
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	var made []*service
	for _, s := range p.services {
		if s.id != "" {
			made = append(made, s)
		}
	}
	return each(made, func(s *service) error { return p.m.reaper.Remove(ctx, s.id) })
}
