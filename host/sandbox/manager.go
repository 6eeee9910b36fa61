// Package sandbox gives each session a confined container to run commands in.
//
// Start with Manager (manager.go): Get returns a session's Session (session.go), which is a machine.Machine. A driver.Driver (package
// docker below) creates containers; in each of them process 1 is the supervisor (package supervise). The host exchanges frames with it
// (package link) over its standard streams or a control socket, so commands work without a network and cost hardly more than on the host.
//
// The package decides which container a session gets, when that ends, and which one must end to make room. The packages below do the rest;
// each may use those before it:
//
//   - spec describes a sandbox, driver what an engine must do
//   - executor runs things in one container: commands, processes, folders as a whole
//   - container manages one container from creation to removal: its states, its lease, its record for a later host
//   - launch creates containers: images, mounts, volumes, services, the proxy, and the verification of the supervisor
//   - reconcile adopts the containers of an earlier process, and removes those that no process holds
//
// This package itself has the sessions (session.go, sessions.go), the warm pools (pools.go), the limits on containers (admission.go), the
// end of idle containers (expire.go), code runs (coderun.go, helper.go), bridged commands (bridged.go, onhost.go), and a session's file
// operations (files.go, copy.go). Packages archive and fsroot read hostile archives and the host's folders, wssync synchronises workspaces
// with engines on other machines, and reaper retries failed removals.
//
// Whether a command may run is decided elsewhere.
package sandbox

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/launch"
	"github.com/flynnhost/flynn/host/sandbox/liveness"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/pool"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
	"github.com/flynnhost/flynn/host/sandbox/reconcile"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// Config configures a Manager.
type Config struct {
	Driver driver.Driver
	// Instance distinguishes this host from others on the same engine. It must not change over restarts and must not be shared.
	Instance string
	// WorkspaceRoot is the absolute path of the host folder that has a folder for each session.
	WorkspaceRoot string
	// Spec is used for code runs that have no image of their own.
	Spec spec.Spec
	// Supervisor is the path of flynn-sandboxd; see program.FindSupervisor.
	Supervisor string
	// Pools are the containers to keep ready. The sizes of two pools for the same specification add up.
	Pools []Pool
	// PoolCPU is the share of the machine's CPU time, of all cores, for creating them, from 0 to 1; each is assumed to keep one core busy
	// while it is created. 0.25 by default.
	PoolCPU float64
	// IdleAfter is the time after which an unused container is removed; 30 minutes by default.
	IdleAfter time.Duration
	// MaxAge is the age above which a container is replaced when it is idle; 24 hours by default.
	MaxAge time.Duration
	// PauseAfter is the time after which the processes in an unused container are paused until its next use; 0 means never.
	PauseAfter time.Duration
	// Lease is how long a container with background processes outlives this host, for the next one to continue with; 0 means that it ends
	// with the host.
	Lease time.Duration
	// Registry has the records of containers that other hosts can take over, if the supervisors of the Driver listen and its engine is shared.
	// It may be nil.
	Registry container.Registry
	// Holds counts the users of the workspaces, including those besides this Manager.
	Holds *workspace.Holds
	// Quota limits what sessions hold together; nil means no limits.
	Quota Quota
	// Egress observes the requests of sandboxes; it may be nil.
	Egress Egress
	Log    *slog.Logger

	// Current returns the specification of a sandbox by name, MountRules the rules for host folders that may be mounted, and Secret a
	// secret that a specification names, or "". They change with the configuration, so each is called every time. A container that an
	// earlier host has left is adopted only if it has the current specification; if Current is nil, the one that it was made with. Without
	// MountRules, nothing may be mounted.
	Current    func(name string) (spec.Spec, bool)
	MountRules func() mounts.Rules
	Secret     func(name string) string

	// Network is used by proxies, and Roots verify the hosts of credentials; nil means the host's own.
	Network egress.Network
	Roots   *x509.CertPool

	// Tests set these: the interval of pool inspections, and the state of the memory, whose shortage drains the pools.
	inspect time.Duration
	memory  func() (pool.Memory, error)
}

// Egress observes the requests of sandboxes. Its methods must not block.
type Egress interface {
	// Decided is called for each request that the proxy of a session's sandbox has allowed or refused, and Ended when an allowed one is
	// over, with the bytes carried; see egress.Config.
	Decided(session message.WorkspaceKey, d egress.Decision)
	Ended(session message.WorkspaceKey, d egress.Decision)
	// Bridged is called for each call of a bridged command, and BridgeEnded when an allowed one is over.
	Bridged(session message.WorkspaceKey, d bridge.Decision)
	BridgeEnded(session message.WorkspaceKey, d bridge.Decision)
}

// NoEgress is an Egress that does nothing, for embedding.
type NoEgress struct{}

// Decided implements Egress.
func (NoEgress) Decided(message.WorkspaceKey, egress.Decision) {}

// Ended implements Egress.
func (NoEgress) Ended(message.WorkspaceKey, egress.Decision) {}

// Bridged implements Egress.
func (NoEgress) Bridged(message.WorkspaceKey, bridge.Decision) {}

// BridgeEnded implements Egress.
func (NoEgress) BridgeEnded(message.WorkspaceKey, bridge.Decision) {}

// Manager owns the containers of one host. Its methods are safe for concurrent use.
type Manager struct {
	config     Config
	here       launch.Installation
	reaper     *reaper.Reaper
	launcher   *launch.Launcher
	reconciler *reconcile.Reconciler
	sessions   *registry
	idle       *idleWatch
	warm       *warm
	admissions *admissions
	code       *codeRuns
	starts     *startQueue
	ending     context.Context
	end        context.CancelFunc // cancels code runs, in DestroyAll

	adopted  atomic.Int64 // containers adopted from an earlier host
	detached atomic.Int64 // containers left for a later one
}

// New checks the configuration and copies the supervisor to where containers mount it. It does not contact the engine; Reconcile and Get
// do.
func New(c Config) (*Manager, error) {
	switch {
	case c.Driver == nil:
		return nil, errors.New("sandbox: no driver")
	case c.Instance == "":
		return nil, errors.New("sandbox: no instance name")
	case !filepath.IsAbs(c.WorkspaceRoot):
		return nil, fmt.Errorf("sandbox: workspace root %q is not an absolute path", c.WorkspaceRoot)
	}
	c = c.withDefaults()
	if err := os.MkdirAll(c.WorkspaceRoot, 0o700); err != nil {
		return nil, fmt.Errorf("make workspace root: %w", err)
	}
	run := runFolder(c.WorkspaceRoot, c.Instance)
	supervisor, digest, err := program.Install(c.Supervisor, run)
	if err != nil {
		return nil, err
	}
	host, err := liveness.Join(run)
	if err != nil {
		return nil, err
	}
	here := launch.Installation{
		Driver: c.Driver, Instance: c.Instance, Run: run, WorkspaceRoot: c.WorkspaceRoot, Supervisor: supervisor, Digest: digest, MaxAge: c.MaxAge,
		Workspaces: workspace.New(workspace.Config{Path: c.WorkspaceRoot, Instance: spec.Short(c.Instance), Host: host, Holds: c.Holds}),
		Host:       host, Log: c.Log,
	}
	if _, dialed := c.Driver.(driver.Dialed); dialed && driver.Disks(c.Driver) { // other hosts reach the supervisors and their disks, too
		here.Registry = c.Registry
	}
	here.Keys = container.NewKeys(here.Registry)
	m := &Manager{config: c, here: here, reaper: reaper.New(c.Driver, c.Log), sessions: newRegistry(), starts: newStartQueue()}
	m.ending, m.end = context.WithCancel(context.Background())
	bridges := &bridges{Installation: here, sessions: m, egress: c.Egress, secret: c.Secret, helping: make(map[*container.Container]*helping)}
	m.launcher = launch.New(launch.Config{
		Installation: here, Lease: c.Lease, Reaper: m.reaper, Egress: c.Egress, Bridges: bridges, Network: c.Network, Roots: c.Roots,
		MountRules: c.MountRules, Secret: c.Secret,
	})
	m.reconciler = reconcile.New(reconcile.Config{
		Installation: here, ProxyCAs: m.launcher.ProxyCAs, Launcher: m.launcher, Sessions: adoption{m}, Current: c.Current,
	})
	m.idle = newIdleWatch(c, m.sessions)
	m.admissions = &admissions{quota: c.Quota, sessions: m.sessions, idle: m.idle, log: c.Log, runs: make(map[*codeSlot]bool)}
	m.warm = newWarm(c, here, m.launcher, m.reconciler, m.sessions)
	m.warm.set(c.Pools, c.PoolCPU)
	m.code = &codeRuns{
		Installation: here, base: c.Spec, launcher: m.launcher, warm: m.warm, admissions: m.admissions, sessions: m.sessions, bridges: bridges,
	}
	return m, nil
}

func (c Config) withDefaults() Config {
	c.IdleAfter = cmp.Or(c.IdleAfter, 30*time.Minute)
	c.MaxAge = cmp.Or(c.MaxAge, 24*time.Hour)
	if c.Holds == nil {
		c.Holds = workspace.NewHolds()
	}
	if c.Quota == nil {
		c.Quota = noQuota{}
	}
	if c.Egress == nil {
		c.Egress = NoEgress{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// runFolder returns the folder for files of an instance's processes and containers.
func runFolder(root, instance string) string {
	return filepath.Join(root, ".run-"+spec.Short(instance))
}

// Get returns the session's sandbox of that name, with a live container. If wanted differs from the previous specification, the container
// is replaced and its processes end.
func (m *Manager) Get(ctx context.Context, session message.WorkspaceKey, name string, wanted spec.Spec) (*Session, error) {
	wanted = wanted.WithDefaults()
	if err := wanted.Check(); err != nil {
		return nil, err
	}
	s, err := m.sessions.enter(newSession(m, session, name, wanted, wanted.Hash(m.here.Digest)))
	if err != nil {
		return nil, err
	}
	c, release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	s.register(ctx, c)
	return s, nil
}

// begin creates a container for s in the background and completes p. before is the container that it replaces, which must be gone first,
// because its processes may still write to the workspace.
func (m *Manager) begin(s *Session, p, before *pending) error {
	done, err := m.sessions.join()
	if err != nil {
		return err
	}
	go func() {
		defer done()
		ended := machine.NoticeSlow(p.making, "waiting until the sandbox before it is removed")
		p.before = before.last()
		err := errors.Join(s.succeed(), p.before.Settle())
		ended()
		var c *container.Container
		if err == nil {
			c, err = m.provide(p, s)
		}
		s.complete(p, c, err)
	}()
	return nil
}

// startDeadline bounds the start of the image's own process.
const startDeadline = 30 * time.Second

// provide gets a container for s and starts what its specification requests.
func (m *Manager) provide(p *pending, s *Session) (*container.Container, error) {
	if c := m.takenOver(p.making, s); c != nil {
		return c, nil
	}
	allowed, err := m.admissions.admit(claimant{s.session, s.folder(), s.spec.DiskBytes, s, func() { p.admitted.Store(true) }})
	if err != nil {
		return nil, err
	}
	c, err := m.claimOrMake(p.making, s, allowed)
	if err != nil || s.spec.Start == nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(p.making, startDeadline)
	defer cancel()
	if err := m.launcher.StartImage(ctx, c, s.spec); err != nil {
		return nil, errors.Join(err, c.End())
	}
	return c, nil
}

// claimOrMake takes a matching warm container or creates one. When ctx ends, it stops waiting for the image; later steps are completed.
func (m *Manager) claimOrMake(ctx context.Context, s *Session, allowed admission) (c *container.Container, err error) {
	defer m.warm.pools.Hurry()()
	hold := m.config.Holds.Enter(s.session)
	leave := func() { hold(); allowed.release() }
	if allowed.disk == s.spec.DiskBytes { // a warm container was already told its limit
		c = m.warm.claim(ctx, s)
	}
	if c == nil {
		c, err = m.launcher.Launch(ctx, launch.Request{Spec: s.spec, Session: s.session, Sandbox: s.name, Folder: s.folder(), Disk: allowed.disk})
		if err != nil {
			leave()
			return nil, err
		}
	}
	c.OnceRemoved(leave)
	return c, nil
}

// drop forgets and ends one sandbox.
func (m *Manager) drop(s *Session) error {
	m.sessions.forget(s)
	return s.retire()
}

// Destroy ends the session's containers and waits until they are gone or ctx ends. The workspace stays.
func (m *Manager) Destroy(ctx context.Context, session message.WorkspaceKey) error {
	return m.sessions.end(ctx, func(s *Session) bool { return s.session == session })
}

// Serves reports whether the session has a live container in that sandbox. Commands run in it even while the engine does not answer.
func (m *Manager) Serves(session message.WorkspaceKey, name string) bool {
	s := m.sessions.find(key{session, name})
	if s == nil {
		return false
	}
	c := s.current()
	return c != nil && !c.Dead()
}

// Fetch brings the host's folder of a session up to date with what its containers on an engine elsewhere have changed.
func (m *Manager) Fetch(ctx context.Context, session message.WorkspaceKey) (err error) {
	for _, s := range m.sessions.all() {
		if c := s.current(); s.session == session && c != nil {
			err = errors.Join(err, c.FetchWorkspace(ctx))
		}
	}
	return err
}

// DestroyAll ends every container at shutdown, except that those with background processes are left for their lease. Afterwards Get fails.
func (m *Manager) DestroyAll(ctx context.Context) error {
	m.warm.pools.Close()
	first := m.sessions.close()
	m.end()
	m.detachAll()
	err := m.sessions.end(ctx, func(*Session) bool { return true })
	err = errors.Join(err, m.sessions.settle(ctx), m.reaper.Settle(ctx))
	if first {
		m.here.Host.Leave()
	}
	return err
}

// detachAll leaves the containers with background processes for their lease, for a later host. Their sessions accept no more calls.
func (m *Manager) detachAll() {
	var leaving sync.WaitGroup
	count := 0
	for _, s := range m.sessions.all() {
		if c := s.leave(); c != nil {
			m.sessions.forget(s)
			count++
			leaving.Go(c.Detach)
		}
	}
	m.detached.Add(int64(count))
	if count > 0 {
		m.config.Log.Info("sandboxes with background processes stay for their lease", "count", count, "lease", m.config.Lease)
	}
	leaving.Wait()
}

// adoption gives sessions the containers that an earlier process has left.
type adoption struct{ *Manager }

// Adopt implements reconcile.Sessions.
func (a adoption) Adopt(r container.Record, c *container.Container) bool {
	s := newSession(a.Manager, r.Session, r.Sandbox, r.Spec, r.Hash)
	s.launch = newPending()
	s.complete(s.launch, c, nil)
	if !a.sessions.enterNew(s) {
		return false
	}
	a.count(r, c)
	return true
}

// count counts an adopted container among what its session holds.
func (m *Manager) count(r container.Record, c *container.Container) {
	hold := m.config.Holds.Enter(r.Session)
	_, release, err := m.config.Quota.Reserve(r.Session, r.Spec.DiskBytes)
	if err != nil {
		release = func() {} // it exists already, whatever the limits
	}
	c.OnceRemoved(func() { hold(); release() })
	m.adopted.Add(1)
}

// Forget ends the session's containers and removes its own volumes. The workspace stays.
func (m *Manager) Forget(ctx context.Context, session message.WorkspaceKey) error {
	return errors.Join(
		m.Destroy(ctx, session),
		m.RemoveVolumes(ctx, func(o driver.Owned) bool {
			return message.WorkspaceKey(o.Labels[driver.LabelSession]) == session
		}),
		m.launcher.Syncs.Forget(session, workspace.Path(m.config.WorkspaceRoot, session)),
	)
}

// RemoveVolumes removes those of this instance's volumes for which such returns true. It keeps one that a container uses and returns an
// error.
func (m *Manager) RemoveVolumes(ctx context.Context, such func(driver.Owned) bool) error {
	return m.launcher.Volumes.Remove(ctx, such)
}

// Images returns the builder of this instance's images.
func (m *Manager) Images() *launch.Images { return m.launcher.Images }

// SetPools changes the warm pools, and the share of CPU time for refilling them: see Config.
func (m *Manager) SetPools(wanted []Pool, cpu float64) { m.warm.set(wanted, cpu) }

// RunCode runs a program until it ends or ctx is done. The container and its folder are removed in the background and not used again. A
// timeout or a cancelled context is a result, not an error.
func (m *Manager) RunCode(ctx context.Context, c Code) (CodeResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ending, cancel)()
	return m.code.run(ctx, c)
}

// Reconcile adopts containers with background processes that an earlier process of this instance has left within their lease, and removes
// the others that no process owns. Call it before the first Get; Run calls it repeatedly. It never touches containers of other instances,
// whatever their age, or those of another living process of this instance.
func (m *Manager) Reconcile(ctx context.Context) error { return m.reconciler.Reconcile(ctx) }

// Prune removes what earlier processes left, including what could be adopted, and returns the containers. It leaves those with the keys in
// others, which other hosts have.
func (m *Manager) Prune(ctx context.Context, others map[string]bool) ([]driver.Owned, error) {
	return m.reconciler.Prune(ctx, others)
}

// Ephemeral marks a session, before the first Get, as one that Discard ends. If this process cannot do that, Reconcile or Prune of a later
// process of this instance does.
func (m *Manager) Ephemeral(session message.WorkspaceKey) error {
	return m.reconciler.Ephemeral(session)
}

// Discard ends an ephemeral session and removes everything that it had.
func (m *Manager) Discard(ctx context.Context, session message.WorkspaceKey) error {
	return m.reconciler.Discard(ctx, session)
}

// WithOwners returns containers of an instance with their labels changed to those of containers made for their current sessions. root is
// that of the instance's workspaces.
func WithOwners(root, instance string, owned []driver.Owned) []driver.Owned {
	return reconcile.WithOwners(runFolder(root, instance), owned)
}

// Run fills the pools, watches idle containers and reconciles until ctx ends. Get works without it, too.
func (m *Manager) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { m.warm.pools.Run(ctx) })
	running.Go(func() { m.idle.run(ctx) })
	running.Go(func() { m.reconciler.Run(ctx) })
	running.Go(func() { m.reaper.Run(ctx) })
	running.Wait()
	return ctx.Err()
}

// Living counts the containers of each session, including those of bridges and code runs.
func (m *Manager) Living() map[message.WorkspaceKey]int {
	counts := map[message.WorkspaceKey]int{}
	live, _ := m.admissions.living(nil)
	for _, l := range live {
		counts[l.Session]++
	}
	return counts
}

// Running counts the background processes of each session.
func (m *Manager) Running() map[message.WorkspaceKey]int {
	counts := map[message.WorkspaceKey]int{}
	for _, s := range m.sessions.all() {
		c := s.current()
		if c == nil || c.Dead() {
			continue
		}
		for _, process := range c.List() {
			if process.Running && process.ID != ImageProcess {
				counts[s.session]++
			}
		}
	}
	return counts
}

// Stats are counters since the start.
type Stats struct {
	Sessions int // known sessions, with or without a container
	Adopted  int // containers with background processes adopted from an earlier host
	Detached int // containers left for a later host
	Pool     pool.Stats
}

// Stats returns the counters for metrics.
func (m *Manager) Stats() Stats {
	return Stats{
		Sessions: len(m.sessions.all()), Adopted: int(m.adopted.Load()), Detached: int(m.detached.Load()), Pool: m.warm.pools.Stats(),
	}
}
