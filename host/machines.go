package host

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/observe/egresslog"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/pool"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
	"github.com/flynnhost/flynn/host/store"
)

// machines hands out the places where tools act: for each session one folder, which is its workspace on the host and
// in its sandbox alike.
type machines struct {
	root      string // of the workspaces
	hostHomes string // of what commands on the host have for HOME, by session; no tool, sandbox or mount reaches it
	instance  string
	log       *slog.Logger
	egress    *egresslog.Log
	now       func() time.Time

	holds *workspace.Holds // of the workspaces that hosts have open
	quota *quota.Keeper
	media func(sender string) int64 // what the media store keeps of a sender, in bytes; set before run, or nil

	mu         sync.Mutex
	specs      map[string]sandbox.Spec // by name, "" for [sandbox]; of the generation in force
	pools      []sandbox.Pool
	poolCPU    float64
	timeout    time.Duration // of commands on the host
	mountRules mounts.Rules  // of sandboxes
	secrets    map[string]config.Secret
	folders    map[string]string // that programs of agents work in, by agent
	places     map[string]string // where a folder stands that a message to such an agent names, by agent
	// folderRules say which of them may be.
	folderRules mounts.Rules
	hosts       map[string]*hostMachine
	manager     *sandbox.Manager
	// unavailable is why no sandbox can be had, as last seen.
	unavailable error
	// engine is what the engine can do, as it was when it was last found, or nil.
	engine *sandbox.Capabilities
	// homes are what the sandboxes of the sessions in the store are called by; gone are those of deleted ones that the engine may have
	// something of still, until forgotten is told that it has not. They are set before run.
	homes     func(ctx context.Context) (map[string]bool, error)
	gone      func(ctx context.Context) ([]string, error)
	forgotten func(ctx context.Context, home string) error
	// network and roots are what proxies of sandboxes reach things by, other than the host's own in tests alone.
	network egress.Network
	roots   *x509.CertPool
	// looked is closed once the engine was looked at for the first time.
	looked chan struct{}
}

// hostMachine is the host as one session has it.
type hostMachine struct {
	*machine.Host
	used  time.Time // last handed out
	leave func()    // the holds
}

// Past maxHosts sessions, those machines are closed that nothing runs on and that nobody asked for within hostIdle.
const (
	maxHosts = 256
	hostIdle = 10 * time.Minute
)

// checkEvery is the time between two looks at an engine.
const checkEvery = 5 * time.Second

var errSandboxOff = fmt.Errorf("%w: [sandbox] is not enabled", machine.ErrUnavailable)

// newMachines puts right what a crash has left undone among the workspaces; no other host may use them.
func newMachines(root, instance string, egress *egresslog.Log, log *slog.Logger) *machines {
	if err := workspace.Recover(root); err != nil {
		log.Error("cannot move workspaces to their places", "error", err)
	}
	m := &machines{
		root: root, hostHomes: hostHomes(root), instance: instance, log: log, egress: egress, now: time.Now, specs: map[string]sandbox.Spec{}, hosts: map[string]*hostMachine{},
		unavailable: errSandboxOff, looked: make(chan struct{}), holds: workspace.NewHolds(),
	}
	m.quota = quota.New(quota.Config{
		Measure: measure(root, m.hostHomes),
		Media: func(sender string) int64 {
			if m.media == nil {
				return 0
			}
			return m.media(sender)
		},
		Running: m.running,
		Place:   func(session string) string { place, _, _ := store.SessionParts(session); return place },
	})
	return m
}

// limits are those of a generation.
func limits(c config.Limits) quota.Limits {
	return quota.Limits{
		SenderSessions: c.SenderSessions, SenderSandboxes: c.SenderSandboxes, Sandboxes: c.Sandboxes, SenderProcesses: c.SenderProcesses,
		Processes: c.Processes, SessionDisk: int64(c.SessionDisk), SenderDisk: int64(c.SenderDisk), AllDisk: int64(c.Disk),
	}
}

// sessionQuota is what one session may hold.
type sessionQuota struct {
	keeper  *quota.Keeper
	session string
}

// Write implements machine.Quota.
func (q sessionQuota) Write(bytes int64) error { return q.keeper.Write(q.session, bytes) }

// Command implements machine.Quota.
func (q sessionQuota) Command() error { return q.keeper.Command(q.session) }

// Process implements machine.Quota.
func (q sessionQuota) Process(enter func() error) error { return q.keeper.Process(q.session, enter) }

// running counts the background processes of each session, on the host and in its sandboxes.
func (m *machines) running() map[string]int {
	counts := m.runningOnHost()
	if manager := m.sandboxManager(); manager != nil {
		for session, n := range manager.Running() {
			counts[session] += n
		}
	}
	return counts
}

func (m *machines) runningOnHost() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := make(map[string]int, len(m.hosts))
	for session, h := range m.hosts {
		if n := h.Running(); n > 0 {
			counts[session] = n
		}
	}
	return counts
}

// sandboxManager is the manager of sandboxes, or nil while there is none.
func (m *machines) sandboxManager() *sandbox.Manager {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.manager
}

// hostHomes is the folder of home folders beside the one of workspaces. Mount rules keep sandboxes from both, since they lie in the store's.
func hostHomes(workspaces string) string { return filepath.Join(filepath.Dir(workspaces), "homes") }

// configure takes over the sandboxes of a generation.
func (m *machines) configure(c *config.Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timeout = time.Duration(c.Sandbox.TimeoutSeconds) * time.Second
	m.quota.Configure(limits(c.Limits))
	m.mountRules = c.MountRules(os.Getenv)
	m.secrets = c.Secrets()
	m.configureCLIs(c)
	m.specs = specs(c)
	m.pools, m.poolCPU = warmPools(c), float64(c.Sandbox.WarmPoolCPU)/100
	if m.manager != nil {
		m.manager.SetPools(m.pools, m.poolCPU)
	}
}

// warmPools are the pools of [sandbox] and of the named sandboxes that ask for one.
func warmPools(c *config.Config) []sandbox.Pool {
	var pools []sandbox.Pool
	add := func(s config.Sandbox) {
		if s.Enabled && s.WarmPool > 0 {
			pools = append(pools, sandbox.Pool{Spec: bridgedSpec(c, s), Size: s.WarmPool})
		}
	}
	add(c.Sandbox)
	for _, name := range slices.Sorted(maps.Keys(c.Sandboxes)) {
		add(c.Sandboxes[name])
	}
	return append(pools, codePools(c)...)
}

// poolStats is what is known of the warm pools, for metrics.
func (m *machines) poolStats() pool.Stats {
	m.mu.Lock()
	manager := m.manager
	m.mu.Unlock()
	if manager == nil {
		return pool.Stats{}
	}
	return manager.Stats().Pool
}

func spec(s config.Sandbox) sandbox.Spec {
	return sandbox.Spec{
		Image: s.Image, WorkspaceDir: s.WorkspaceDir, Network: s.Network, Allowlist: s.Allowlist, MemoryBytes: int64(s.MemoryLimit),
		CPUs: float64(s.CPULimit), PidsLimit: int64(s.PidsLimit), Timeout: time.Duration(s.TimeoutSeconds) * time.Second,
		Runtime: s.Runtime, DiskBytes: int64(s.DiskLimit),
		Mounts: hostMounts(s.Mounts), Volumes: volumes(s.Volumes), Tmpfs: tmpfs(s.Tmpfs), Start: s.StartCommand,
		Packages: s.Packages, Binaries: binaries(s.Binaries), Dockerfile: s.Dockerfile, BuildContext: s.BuildContext, BuildNetwork: s.BuildNetwork,
		Compose: s.Project, Service: s.Service,
		Credentials: credentials(s.Credentials), EgressLimit: int64(s.EgressLimit),
	}
}

// engineOf says where the engine is.
func engineOf(c config.Sandbox) docker.Config {
	return docker.Config{Engine: c.Engine, CA: c.EngineCA, Cert: c.EngineCert, Key: c.EngineKey}
}

// run looks after the engine until ctx ends, then removes the containers. Without [sandbox] it only waits.
func (m *machines) run(ctx context.Context, c config.Sandbox) error {
	defer m.closeHosts()
	if !c.Enabled {
		close(m.looked)
		<-ctx.Done()
		return nil
	}
	if !c.LocalFrontends {
		m.log.Info("calls of the web page and the terminal act on the host; local_frontends = true under [sandbox] puts them into containers too")
	}
	driver, err := docker.New(engineOf(c))
	if err != nil {
		m.see(fmt.Errorf("%w: %w", machine.ErrUnavailable, err))
		close(m.looked)
		<-ctx.Done()
		return nil
	}
	var running sync.WaitGroup
	for first := true; ctx.Err() == nil; first = false {
		m.see(m.look(ctx, driver, c, &running))
		if first {
			close(m.looked)
		}
		select {
		case <-time.After(checkEvery):
		case <-ctx.Done():
		}
	}
	running.Wait()
	return nil
}

// look asks the engine for a sign of life, and makes the manager when there is one for the first time.
func (m *machines) look(ctx context.Context, driver *docker.Driver, c config.Sandbox, running *sync.WaitGroup) error {
	ping, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	if err := driver.Ping(ping); err != nil {
		return err
	}
	m.mu.Lock()
	made, back := m.manager, m.unavailable != nil
	m.mu.Unlock()
	if back {
		if err := m.learn(ctx, driver); err != nil {
			return err
		}
	}
	if made != nil {
		if back { // what the engine has lost or kept meanwhile
			m.forgetGone(ctx, made)
			running.Go(func() { m.reconcile(ctx, made) })
		}
		return nil
	}
	supervisor, err := program.FindSupervisor(m.log)
	if err != nil {
		return fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	manager, err := sandbox.New(sandbox.Config{
		Driver: driver, Instance: m.instance, WorkspaceRoot: m.root, Spec: spec(c), Supervisor: supervisor, Holds: m.holds, Log: m.log,
		MountRules: m.rules, Current: m.spec, Quota: m.quota,
		PauseAfter: time.Duration(c.PauseAfter), IdleAfter: time.Duration(c.IdleAfter), MaxAge: time.Duration(c.MaxAge),
		Lease:   time.Duration(c.Lease),
		Secret:  m.secret,
		Network: m.network, Roots: m.roots,
		Bridged: m.egress.Bridged, BridgeEnded: m.egress.BridgeEnded,
		Decided: m.egress.Decided, Ended: m.egress.Ended,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	m.reconcile(ctx, manager)
	m.sweepCLIs(ctx, manager)
	m.forgetGone(ctx, manager)
	m.mu.Lock()
	m.manager = manager
	manager.SetPools(m.pools, m.poolCPU)
	m.mu.Unlock()
	running.Go(func() {
		if err := manager.Run(ctx); err != nil && ctx.Err() == nil {
			m.log.Error("sandbox manager ended", "error", err)
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if err := manager.DestroyAll(last); err != nil {
			m.log.Error("remove containers", "error", err)
		}
	})
	return nil
}

func (m *machines) reconcile(ctx context.Context, manager *sandbox.Manager) {
	if err := manager.Reconcile(ctx); err != nil && ctx.Err() == nil {
		m.log.Error("clean up after an earlier run", "error", err)
	}
}

// learn asks the engine what it can do, and says at once what it cannot of what is configured.
func (m *machines) learn(ctx context.Context, driver *docker.Driver) error {
	engine, err := driver.Capabilities(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.engine = &engine
	for name, s := range m.specs {
		if err := engine.Supports(s); err != nil {
			m.log.Warn("a sandbox cannot be made", "sandbox", name, "reason", machine.Reason(err))
		}
	}
	return nil
}

// see takes note of the engine's state, and says so when it has changed.
func (m *machines) see(err error) {
	m.mu.Lock()
	before := m.unavailable
	m.unavailable = err
	m.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		m.log.Warn(machine.ErrUnavailable.Error(), "reason", machine.Reason(err))
	case err == nil && before != nil:
		m.log.Info("sandbox is available")
	}
}

// errLooking is the state before the engine was looked at.
var errLooking = fmt.Errorf("%w: the engine was not looked at yet", machine.ErrUnavailable)

// asOfNow is why no sandbox can be had at this moment, for people; it does not wait.
func (m *machines) asOfNow() error {
	select {
	case <-m.looked:
		return m.Available("")
	default:
		return errLooking
	}
}

// Available implements agent.Machines. Before the engine was looked at it waits.
func (m *machines) Available(name string) error {
	select {
	case <-m.looked:
	case <-time.After(time.Minute):
		return fmt.Errorf("%w: the engine does not answer: restart it", machine.ErrUnavailable)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unavailable != nil || m.engine == nil {
		return m.unavailable
	}
	s, _ := m.named(name)
	return m.engine.Supports(s)
}

// spec is the specification of a sandbox by its name.
func (m *machines) spec(name string) (sandbox.Spec, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.named(name)
}

// Digest implements agent.Machines.
func (m *machines) Digest(name string) string {
	s, known := m.spec(name)
	if !known {
		return ""
	}
	return s.Digest()
}

// Sandbox implements agent.Machines.
func (m *machines) Sandbox(ctx context.Context, session, name string) (machine.Machine, error) {
	if err := m.Available(name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	s, known := m.named(name)
	manager := m.manager
	m.mu.Unlock()
	if !known {
		return nil, fmt.Errorf("%w: there is no [sandboxes.%s]", machine.ErrUnavailable, name)
	}
	if err := m.permitted(name); err != nil {
		return nil, err
	}
	m.quota.Changed(session)
	return manager.Get(ctx, session, name, s)
}

// Dir implements agent.Machines.
func (m *machines) Dir(session string) string { return workspace.Path(m.root, session) }

// Host implements agent.Machines.
func (m *machines) Host(session string) (machine.Machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.hosts[session]
	if !ok {
		m.closeIdle()
		var err error
		if h, err = m.openHost(session); err != nil {
			return nil, err
		}
		m.hosts[session] = h
	}
	h.used = m.now()
	m.quota.Changed(session)
	return h.Host, nil
}

// visit is Host for a moment. It leaves nothing open, since an open workspace stays in its place.
func (m *machines) visit(session string) (_ machine.Machine, leave func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h, ok := m.hosts[session]; ok {
		h.used = m.now()
		return h.Host, func() {}, nil
	}
	h, err := m.openHost(session)
	if err != nil {
		return nil, nil, err
	}
	return h.Host, func() {
		if err := h.close(); err != nil {
			m.log.Error("close the machine of a session", "session", session, "error", err)
		}
	}, nil
}

// openHost opens the session's workspace, which must stay in its place from then on.
func (m *machines) openHost(session string) (*hostMachine, error) {
	leave := m.holds.Enter(session)
	dir := m.Dir(session)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		leave()
		return nil, fmt.Errorf("make workspace: %w", err)
	}
	opened, err := machine.NewHost(machine.HostConfig{
		Workspace: dir, Homes: workspace.Path(m.hostHomes, session), DefaultTimeout: m.timeout, Log: m.log,
		Quota: sessionQuota{m.quota, session},
	})
	if err != nil {
		leave()
		return nil, err
	}
	return &hostMachine{Host: opened, leave: leave}, nil
}

// close ends what runs on it.
func (h *hostMachine) close() error {
	defer h.leave()
	return h.Close()
}

// closeIdle makes room; m.mu is held.
func (m *machines) closeIdle() {
	if len(m.hosts) < maxHosts {
		return
	}
	for session, h := range m.hosts {
		if m.now().Sub(h.used) < hostIdle || !h.Idle() {
			continue
		}
		if err := h.close(); err != nil {
			m.log.Error("close the machine of a session", "session", session, "error", err)
		}
		delete(m.hosts, session)
	}
}

func (m *machines) closeHosts() {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, h := range m.hosts {
		errs = append(errs, h.close())
	}
	clear(m.hosts)
	if err := errors.Join(errs...); err != nil {
		m.log.Error("end processes on the host", "error", err)
	}
}

// instanceName names a store among others on one machine, for as long as it exists.
func instanceName(storeDir string) (string, error) {
	path := filepath.Join(storeDir, "instance")
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return string(text), nil
	}
	if err == nil { // a crash has left it empty
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("name this instance: %w", err)
		}
	}
	if err := placeName(path, store.NewID(time.Now())); err != nil {
		return "", fmt.Errorf("name this instance: %w", err)
	}
	text, err = os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("name this instance: %w", err)
	}
	return string(text), nil
}

// placeName writes a name whole, unless another process has been faster: a second name would leave the first one's
// containers to nobody.
func placeName(path, name string) error {
	draft, err := os.CreateTemp(filepath.Dir(path), ".instance-*")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	_, err = draft.WriteString(name)
	if err = errors.Join(err, draft.Close()); err != nil {
		return err
	}
	if err := os.Link(draft.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return os.Rename(draft.Name(), path) // a file system without links
	}
	return nil
}
