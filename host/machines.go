package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/store"
)

// machines hands out the places where tools act: for each session one folder, which is its workspace on the host and
// in its sandbox alike.
type machines struct {
	root     string // of the workspaces
	instance string
	log      *slog.Logger
	egress   *egressLog
	now      func() time.Time

	mu         sync.Mutex
	specs      map[string]sandbox.Spec // by name, "" for [sandbox]; of the generation in force
	timeout    time.Duration           // of commands on the host
	mountRules mounts.Rules            // of sandboxes
	secrets    map[string]config.Secret
	hosts      map[string]*hostMachine
	manager    *sandbox.Manager
	// unavailable is why no sandbox can be had, as last seen.
	unavailable error
	// looked is closed once the engine was looked at for the first time.
	looked chan struct{}
}

// hostMachine is the host as one session has it.
type hostMachine struct {
	*machine.Host
	used time.Time // last handed out
}

// Past maxHosts sessions, those machines are closed that nothing runs on and that nobody asked for within hostIdle.
const (
	maxHosts = 256
	hostIdle = 10 * time.Minute
)

// checkEvery is the time between two looks at an engine.
const checkEvery = 5 * time.Second

var errSandboxOff = fmt.Errorf("%w: [sandbox] is not enabled", machine.ErrUnavailable)

func newMachines(root, instance string, egress *egressLog, log *slog.Logger) *machines {
	return &machines{
		root: root, instance: instance, log: log, egress: egress, now: time.Now, specs: map[string]sandbox.Spec{}, hosts: map[string]*hostMachine{},
		unavailable: errSandboxOff, looked: make(chan struct{}),
	}
}

// configure takes over the sandboxes of a generation.
func (m *machines) configure(c *config.Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timeout = time.Duration(c.Sandbox.TimeoutSeconds) * time.Second
	m.mountRules = c.MountRules(os.Getenv)
	m.secrets = c.Secrets()
	m.specs = map[string]sandbox.Spec{"": spec(c.Sandbox)}
	for name, s := range c.Sandboxes {
		m.specs[name] = spec(s)
	}
}

func spec(s config.Sandbox) sandbox.Spec {
	return sandbox.Spec{
		Image: s.Image, WorkspaceDir: s.WorkspaceDir, Network: s.Network, Allowlist: s.Allowlist, MemoryBytes: int64(s.MemoryLimit),
		CPUs: float64(s.CPULimit), PidsLimit: int64(s.PidsLimit), Timeout: time.Duration(s.TimeoutSeconds) * time.Second,
		Runtime:     s.Runtime,
		Credentials: credentials(s.Credentials), EgressLimit: int64(s.EgressLimit),
		Mounts: hostMounts(s.Mounts), Volumes: volumes(s.Volumes), Tmpfs: tmpfs(s.Tmpfs), Start: s.StartCommand,
	}
}

// run looks after the engine until ctx ends, then removes the containers. Without [sandbox] it only waits.
func (m *machines) run(ctx context.Context, c config.Sandbox) error {
	defer m.closeHosts()
	if !c.Enabled {
		close(m.looked)
		<-ctx.Done()
		return nil
	}
	driver, err := docker.New(docker.Config{Engine: c.Engine})
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
	made := m.manager != nil
	m.mu.Unlock()
	if made {
		return nil
	}
	supervisor, err := sandbox.FindSupervisor(m.log)
	if err != nil {
		return fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	manager, err := sandbox.New(sandbox.Config{
		Driver: driver, Instance: m.instance, WorkspaceRoot: m.root, Spec: spec(c), Supervisor: supervisor, WarmPool: c.WarmPool, Log: m.log,
		MountRules: m.rules, Secret: m.secret,
		Decided: func(session string, d egress.Decision) { m.egress.decided(session, d) },
		Ended:   func(session string, d egress.Decision) { m.egress.ended(session, d) },
	})
	if err != nil {
		return fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	if err := manager.Reconcile(ctx); err != nil && ctx.Err() == nil {
		m.log.Error("remove containers of an earlier run", "error", err)
	}
	m.mu.Lock()
	m.manager = manager
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
func (m *machines) Available(string) error {
	select {
	case <-m.looked:
	case <-time.After(time.Minute):
		return fmt.Errorf("%w: the engine does not answer: restart it", machine.ErrUnavailable)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unavailable
}

// Sandbox implements agent.Machines.
func (m *machines) Sandbox(ctx context.Context, session, name string) (machine.Machine, error) {
	if err := m.Available(name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	s, known := m.specs[name]
	manager := m.manager
	m.mu.Unlock()
	if !known {
		return nil, fmt.Errorf("%w: there is no [sandboxes.%s]", machine.ErrUnavailable, name)
	}
	return manager.Get(ctx, session, name, s)
}

// Dir implements agent.Machines.
func (m *machines) Dir(session string) string { return sandbox.Workspace(m.root, session) }

// Host implements agent.Machines.
func (m *machines) Host(session string) (machine.Machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.hosts[session]
	if !ok {
		m.closeIdle()
		dir := m.Dir(session)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make workspace: %w", err)
		}
		opened, err := machine.NewHost(machine.HostConfig{Workspace: dir, DefaultTimeout: m.timeout, Log: m.log})
		if err != nil {
			return nil, err
		}
		h = &hostMachine{Host: opened}
		m.hosts[session] = h
	}
	h.used = m.now()
	return h.Host, nil
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
		if err := h.Close(); err != nil {
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
		errs = append(errs, h.Close())
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
	name := store.NewID(time.Now())
	if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
		return "", fmt.Errorf("name this instance: %w", err)
	}
	return name, nil
}
