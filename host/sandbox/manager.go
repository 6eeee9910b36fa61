// Package sandbox gives each session a confined container to run commands in.
//
// Start with Manager (manager.go): Get returns a session's Session (session.go), which is a machine.Machine. A driver.Driver (package docker
// below) makes containers; in each of them process 1 is the supervisor (package supervise), spoken to in frames (package link) over its
// standard streams, or a socket beside them where there is one: so it works with the network off, and a command costs hardly more than on
// the host.
//
// The package decides which container a session gets, when it ends and which other one has to end for it. The packages below do the rest;
// each may use those before it:
//
//   - spec describes a sandbox, driver what an engine must do
//   - executor runs things in one container: commands, processes, folders as a whole
//   - container keeps one container from its making to its removal: its states, its lease, its record for a later host
//   - launch makes containers: images, mounts, volumes, services, the proxy, and the check of the supervisor
//   - reconcile adopts the containers of an earlier process, and removes those that no process holds
//
// Here are the sessions (session.go, sessions.go), what is kept warm (pools.go), who may have another container (admission.go), the end of
// idle ones (expire.go), code runs (coderun.go, helper.go), bridged commands (bridged.go, onhost.go), and what a session does with files
// (files.go, copy.go). Packages archive and fsroot read hostile archives and the host's folders, wssync carries workspaces to
// engines on other machines, and reaper ends what an engine in trouble does not let go.
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

	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/launch"
	"github.com/flynnhost/flynn/host/sandbox/liveness"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/pool"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
	"github.com/flynnhost/flynn/host/sandbox/reconcile"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// Config is what a Manager needs.
type Config struct {
	Driver driver.Driver
	// Instance names this host among others on the same engine. It must be stable over
	// restarts and must not be shared.
	Instance string
	// WorkspaceRoot is the absolute host folder with a folder for each session.
	WorkspaceRoot string
	// Spec is the sandbox that code runs are like where they name none.
	Spec spec.Spec
	// Supervisor is the path of flynn-sandboxd; see program.FindSupervisor.
	Supervisor string
	// Pools are the containers kept ready. Two for the same specification add up.
	Pools []Pool
	// PoolCPU is the part of the machine's time, over all its cores, that making them may take, from 0 to 1; each is
	// reckoned to keep one core busy for as long as it takes. 0.25
	PoolCPU float64
	// IdleAfter ends a container that nothing has used for so long. 30 minutes
	IdleAfter time.Duration
	// MaxAge replaces a container at its first idle moment after that time. 24 hours
	MaxAge time.Duration
	// PauseAfter pauses what runs in a container that nothing has used for so long, until its next use. 0: never
	PauseAfter time.Duration
	// Lease is how long a container with background processes outlasts this host, for the next one to go on with. 0: it
	// ends with the host
	Lease time.Duration
	// Holds counts the users of the workspaces; those besides this Manager must enter them here.
	Holds *workspace.Holds
	// Quota bounds what sessions have together; nil is no bound.
	Quota Quota
	// Egress observes what sandboxes reach; it may be nil.
	Egress Egress
	Log    *slog.Logger

	// Current returns the specification of a sandbox by its name, MountRules the folders of the host that may be mounted, and Secret a
	// secret that a specification names, "" where there is none. They change with the configuration, so each is called every time. A
	// container that an earlier host has left must have the current specification to be gone on with; where Current is nil, the one
	// that it was made with. Without MountRules, nothing may be mounted.
	Current    func(name string) (spec.Spec, bool)
	MountRules func() mounts.Rules
	Secret     func(name string) string

	// Network is what proxies reach things by, and Roots what they verify the hosts of credentials by; nil is the host's own.
	Network egress.Network
	Roots   *x509.CertPool

	// Tests set these: the time between two looks at the pools, and how much memory the machine has left, whose shortage drains them.
	inspect time.Duration
	memory  func() (pool.Memory, error)
}

// Egress observes what sandboxes reach. Its methods must not wait.
type Egress interface {
	// Decided is called for each request that the proxy of a session's sandbox has allowed or refused, and Ended again when an
	// allowed one is over, with the bytes that it has carried; see egress.Config.
	Decided(session string, d egress.Decision)
	Ended(session string, d egress.Decision)
	// Bridged is called for each call of a bridged command, and BridgeEnded again when an allowed one is over.
	Bridged(session string, d bridge.Decision)
	BridgeEnded(session string, d bridge.Decision)
}

// NoEgress is an Egress that does nothing, to be embedded by those that observe a part.
type NoEgress struct{}

// Decided implements Egress.
func (NoEgress) Decided(string, egress.Decision) {}

// Ended implements Egress.
func (NoEgress) Ended(string, egress.Decision) {}

// Bridged implements Egress.
func (NoEgress) Bridged(string, bridge.Decision) {}

// BridgeEnded implements Egress.
func (NoEgress) BridgeEnded(string, bridge.Decision) {}

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
	end        context.CancelFunc // of code runs, at DestroyAll

	adopted  atomic.Int64 // containers that an earlier host has left
	detached atomic.Int64 // containers left for a later one
}

// New checks the configuration and copies the supervisor to where containers mount it. It does not
// touch the engine; Reconcile and Get do.
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
		Host:       host, Keys: container.NewKeys(), Log: c.Log,
	}
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
	m.warm = newWarm(c, here, m.launcher, m.reconciler, &m.sessions.work)
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

// runFolder is where an instance keeps what belongs to its processes and containers.
func runFolder(root, instance string) string {
	return filepath.Join(root, ".run-"+spec.Short(instance))
}

// Get returns the session's sandbox of that name, with a live container. A spec that differs from the
// last one's replaces the container, and ends what runs in it.
func (m *Manager) Get(ctx context.Context, session, name string, wanted spec.Spec) (*Session, error) {
	wanted = wanted.WithDefaults()
	if err := wanted.Check(); err != nil {
		return nil, err
	}
	s, old, err := m.sessions.enter(newSession(m, session, name, wanted, wanted.Hash(m.here.Digest)))
	if err != nil {
		return nil, err
	}
	if old != nil {
		if err := old.retire(); err != nil {
			return nil, err
		}
	}
	_, release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	release()
	return s, nil
}

// begin makes a container for s in the background and completes p. before is the one that it
// replaces, which must be gone first: its processes may still write to the workspace.
func (m *Manager) begin(s *Session, p, before *pending) error {
	done, err := m.sessions.join()
	if err != nil {
		return err
	}
	go func() {
		defer done()
		p.before = before.last()
		err := p.before.Settle()
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

// provide gets a container for s and starts what its specification asks for.
func (m *Manager) provide(p *pending, s *Session) (*container.Container, error) {
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

// claimOrMake takes a warm container if one fits, or makes one. The end of ctx ends the wait for its image; what comes after
// that is seen through.
func (m *Manager) claimOrMake(ctx context.Context, s *Session, allowed admission) (c *container.Container, err error) {
	defer m.warm.pools.Hurry()()
	hold := m.config.Holds.Enter(s.session)
	leave := func() { hold(); allowed.release() }
	if allowed.disk == s.spec.DiskBytes { // one that waits has been told its limit
		c = m.warm.claim(s.hash, s.session, s.name)
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
func (m *Manager) Destroy(ctx context.Context, session string) error {
	return m.sessions.end(ctx, func(s *Session) bool { return s.session == session })
}

// DestroyAll ends every container at shutdown, but leaves those with background processes for their lease. Afterwards the
// Manager gives no more.
func (m *Manager) DestroyAll(ctx context.Context) error {
	first := m.sessions.close()
	m.end()
	m.detachAll()
	err := m.sessions.end(ctx, func(*Session) bool { return true })
	m.warm.pools.Close()
	err = errors.Join(err, m.sessions.settle(ctx), m.reaper.Settle(ctx))
	if first {
		m.here.Host.Leave()
	}
	return err
}

// detachAll leaves the containers with background processes for their lease: a later host goes on with them. The
// sessions give no more calls.
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

// adoption gives sessions what an earlier process has left.
type adoption struct{ *Manager }

// Adopt implements reconcile.Sessions.
func (a adoption) Adopt(r container.Record, c *container.Container) bool {
	s := newSession(a.Manager, r.Session, r.Sandbox, r.Spec, r.Hash)
	s.launch = newPending()
	s.complete(s.launch, c, nil)
	if !a.sessions.enterNew(s) {
		return false
	}
	hold := a.config.Holds.Enter(r.Session)
	_, release, err := a.config.Quota.Reserve(r.Session, r.Spec.DiskBytes)
	if err != nil {
		release = func() {} // it is there, whatever the limits are by now
	}
	c.OnceRemoved(func() { hold(); release() })
	a.adopted.Add(1)
	return true
}

// Forget ends the session's containers and removes the volumes that are its alone. The workspace stays.
func (m *Manager) Forget(ctx context.Context, session string) error {
	return errors.Join(
		m.Destroy(ctx, session),
		m.RemoveVolumes(ctx, func(o driver.Owned) bool { return o.Labels[driver.LabelSession] == session }),
		m.launcher.Syncs.Forget(session, workspace.Path(m.config.WorkspaceRoot, session)),
	)
}

// RemoveVolumes removes this instance's volumes that such says yes to. One that a container uses stays, with an error.
func (m *Manager) RemoveVolumes(ctx context.Context, such func(driver.Owned) bool) error {
	return m.launcher.Volumes.Remove(ctx, such)
}

// Images makes and removes the images of this instance.
func (m *Manager) Images() *launch.Images { return m.launcher.Images }

// SetPools changes what is kept warm, and the share of the machine's time that refilling may take: see Config.
func (m *Manager) SetPools(wanted []Pool, cpu float64) { m.warm.set(wanted, cpu) }

// RunCode runs a program to its end, or ctx's. The container and its folder are removed in the background; none of it is
// used again. A time-out or a cancelled context is a result, not an error.
func (m *Manager) RunCode(ctx context.Context, c Code) (CodeResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ending, cancel)()
	return m.code.run(ctx, c)
}

// Reconcile adopts what an earlier run of this instance left: containers with background processes within their
// lease. It removes the rest that no process owns. Call it before the first Get; Run calls it again and again. Things of
// other instances are never touched, whatever their age, nor those of another living process of this one.
func (m *Manager) Reconcile(ctx context.Context) error { return m.reconciler.Reconcile(ctx) }

// Prune removes what earlier runs left, also what a host could have adopted, and returns the containers.
func (m *Manager) Prune(ctx context.Context) ([]driver.Owned, error) { return m.reconciler.Prune(ctx) }

// Ephemeral marks a session, before the first Get, as one that Discard ends. Where that does not come to it, Reconcile and Prune of a later
// process of this instance do.
func (m *Manager) Ephemeral(session string) error { return m.reconciler.Ephemeral(session) }

// Discard ends an ephemeral session and removes everything that it had.
func (m *Manager) Discard(ctx context.Context, session string) error {
	return m.reconciler.Discard(ctx, session)
}

// WithOwners returns containers of an instance with the labels that they would have if they had been made for the sessions that have them.
// root is that of the instance's workspaces.
func WithOwners(root, instance string, owned []driver.Owned) []driver.Owned {
	return reconcile.WithOwners(runFolder(root, instance), owned)
}

// Run keeps the pools filled, looks after idle containers and reconciles until ctx ends. Without it Get still works.
func (m *Manager) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { m.warm.pools.Run(ctx) })
	running.Go(func() { m.idle.run(ctx) })
	running.Go(func() { m.reconciler.Run(ctx) })
	running.Go(func() { m.reaper.Run(ctx) })
	running.Wait()
	return ctx.Err()
}

// Living counts the containers of each session, those of bridges and code runs among them.
func (m *Manager) Living() map[string]int {
	counts := map[string]int{}
	live, _ := m.admissions.living(nil)
	for _, l := range live {
		counts[l.Session]++
	}
	return counts
}

// Running counts the background processes of each session.
func (m *Manager) Running() map[string]int {
	counts := map[string]int{}
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

// Stats counts what happened so far.
type Stats struct {
	Sessions int // with an entry, alive or not
	Adopted  int // containers that an earlier host has left, with background processes
	Detached int // containers left for a later host
	Pool     pool.Stats
}

// Stats returns the counts for metrics.
func (m *Manager) Stats() Stats {
	return Stats{
		Sessions: len(m.sessions.all()), Adopted: int(m.adopted.Load()), Detached: int(m.detached.Load()), Pool: m.warm.pools.Stats(),
	}
}
