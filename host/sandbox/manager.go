// Package sandbox gives each session a confined container to run commands in.
//
// Start with Manager: Get returns a session's Session, which is a machine.Machine. A Driver
// (package docker below) makes containers; in each of them process 1 is the supervisor
// (package supervise), spoken to in frames (package link) over its standard streams, or a
// socket beside them where there is one (controlsocket.go): so it works with the network off, and a
// command costs hardly more than on the host.
//
// Where the network is "allowlist" the container has none, and the supervisor offers a proxy on loopback: package link
// carries its connections to package egress, which decides on them.
//
// The package decides how containers live and die: made at the first call, at once from a pool
// of warm ones if there is one, replaced when they die, removed when idle, at Destroy
// and at the end; leftovers of a crash are recognised by label. Whether a command may run is
// decided elsewhere.
//
// Where to look:
//
//   - what a container is made of: spec.go, images.go, mountset.go and volume.go, project.go (services), start.go, credential.go
//     and package proxyca, bridged.go; package program finds the supervisor
//   - its life: manager.go, session.go, provide.go, box.go, expire.go, pause.go, trouble.go and package reaper
//     (engines in trouble), reconcile.go
//   - over a restart of the host: package liveness, ownership.go, record.go, detach.go, adopt.go
//   - warm ones: pools.go above package pool, coderun.go; package workspace for the folders of sessions
//   - what a session does in its container, above package link: exec.go and startqueue.go, process.go, spawn.go, files.go
//   - folders as a whole: copy.go, pack.go and packages archive (hostile archives) and fsroot (the host's); elsewhere.go
//     and package wssync for engines on other machines
package sandbox

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/liveness"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/pool"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/proxyca"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
	"github.com/flynnhost/flynn/host/sandbox/wssync"
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
	log        *slog.Logger
	run        string // the instance's folder for what containers mount
	supervisor string // the copy that containers mount
	digest     string // of the supervisor
	workspaces *workspace.Root
	images     *image.Builder // or nil, where the driver can make none
	pools      *pool.Set[*box]
	reaper     *reaper.Reaper
	volumes    *volumes
	proxyCAs   *proxyca.Store
	location   engineLocation
	syncs      *wssync.Set
	starts     *startQueue
	work       sync.WaitGroup // launches, removals and code runs under way
	ending     context.Context
	end        context.CancelFunc // of code runs, at DestroyAll
	host       *liveness.Member
	tidying    chan struct{} // holds a token while somebody reconciles
	doubled    sync.Once     // the warning that another host has the instance's name
	look       chan struct{} // wakes expire, buffered

	admitting sync.Mutex // held while one container is counted in

	mu       sync.Mutex // guards the fields below, never held over I/O
	sessions map[key]*Session
	held     map[string]bool // keys of the containers that are ours; see ownership
	codeRuns map[*codeRun]bool
	closed   bool
	adopted  int // containers that an earlier host has left
	detached int // containers left for a later one
}

// key names a sandbox: a session may have several under different names.
type key struct{ session, name string }

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
	if err := os.MkdirAll(c.WorkspaceRoot, 0o700); err != nil {
		return nil, fmt.Errorf("make workspace root: %w", err)
	}
	run := runFolder(c.WorkspaceRoot, c.Instance)
	path, digest, err := program.Install(c.Supervisor, run)
	if err != nil {
		return nil, err
	}
	host, err := liveness.Join(run)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		config: c, log: c.Log, run: run, supervisor: path, digest: digest,
		workspaces: workspace.New(workspace.Config{Path: c.WorkspaceRoot, Instance: spec.Short(c.Instance), Host: host, Holds: c.Holds}),
		sessions:   make(map[key]*Session), held: make(map[string]bool), codeRuns: make(map[*codeRun]bool),
		host: host, tidying: make(chan struct{}, 1), look: make(chan struct{}, 1), starts: newStartQueue(),
	}
	m.ending, m.end = context.WithCancel(context.Background())
	m.reaper = reaper.New(c.Driver, m.log)
	m.images = m.newBuilder()
	m.pools, m.volumes = m.newPools(), newVolumes(m)
	m.SetPools(c.Pools, c.PoolCPU)
	m.proxyCAs, m.syncs = proxyca.New(run), wssync.NewSet(run, m.log)
	return m, nil
}

// runFolder is where an instance keeps what belongs to its processes and containers.
func runFolder(root, instance string) string {
	return filepath.Join(root, ".run-"+spec.Short(instance))
}

// Get returns the session's sandbox of that name, with a live container. A spec that differs from the
// last one's replaces the container, and ends what runs in it.
func (m *Manager) Get(ctx context.Context, session, name string, spec spec.Spec) (*Session, error) {
	spec = spec.WithDefaults()
	if err := spec.Check(); err != nil {
		return nil, err
	}
	s, old, err := m.lookup(session, name, spec)
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

// lookup finds or enters the session. old is one with another spec that has to go first.
func (m *Manager) lookup(session, name string, spec spec.Spec) (s, old *Session, err error) {
	k := key{session, name}
	hash := spec.Hash(m.digest)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, errRetired
	}
	if s = m.sessions[k]; s != nil && s.hash == hash {
		s.timeout.Store(int64(spec.Timeout))
		return s, nil, nil
	}
	old = s
	s = &Session{m: m, session: session, name: name, spec: spec, hash: hash, used: time.Now()}
	s.timeout.Store(int64(spec.Timeout))
	m.sessions[k] = s
	return s, old, nil
}

// begin makes a container for s in the background and completes p. before is the one that it
// replaces, which must be gone first: its processes may still write to the workspace.
func (m *Manager) begin(s *Session, p, before *pending) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errRetired
	}
	m.work.Go(func() {
		defer close(p.done)
		p.before = before.last()
		if p.err = p.before.settle(); p.err == nil {
			p.box, p.err = m.provideStarted(p, s)
		}
	})
	return nil
}

// drop forgets and ends one sandbox.
func (m *Manager) drop(s *Session) error {
	m.forget(s)
	return s.retire()
}

func (m *Manager) forget(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := (key{s.session, s.name}); m.sessions[k] == s {
		delete(m.sessions, k)
	}
}

// all returns the sessions there are.
func (m *Manager) all() []*Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.sessions))
}

// Destroy ends the session's containers and waits until they are gone or ctx ends. The workspace stays.
func (m *Manager) Destroy(ctx context.Context, session string) error {
	return m.endAll(ctx, func(s *Session) bool { return s.session == session })
}

// DestroyAll ends every container at shutdown, but leaves those with background processes for their lease. Afterwards the
// Manager gives no more.
func (m *Manager) DestroyAll(ctx context.Context) error {
	m.mu.Lock()
	ended := m.closed
	m.closed = true
	m.mu.Unlock()
	m.end()
	m.detachAll()
	err := m.endAll(ctx, func(*Session) bool { return true })
	m.pools.Close()
	err = errors.Join(err, m.settle(ctx), m.reaper.Settle(ctx))
	if !ended {
		m.host.Leave()
	}
	return err
}

// endAll retires the sessions chosen, side by side as far as box.remove lets it.
func (m *Manager) endAll(ctx context.Context, chosen func(*Session) bool) error {
	m.mu.Lock()
	var ending []*Session
	for k, s := range m.sessions {
		if chosen(s) {
			ending = append(ending, s)
			delete(m.sessions, k)
		}
	}
	m.mu.Unlock()
	failures := make(chan error, len(ending))
	for _, s := range ending {
		m.work.Go(func() { failures <- s.retire() })
	}
	var all error
	for range ending {
		select {
		case err := <-failures:
			all = errors.Join(all, err)
		case <-ctx.Done():
			return errors.Join(all, ctx.Err())
		}
	}
	return all
}

// settle waits for the background work to end.
func (m *Manager) settle(ctx context.Context) error {
	done := make(chan struct{})
	go func() { m.work.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end sandboxes: %w", ctx.Err())
	}
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
	m.mu.Lock()
	s := Stats{Sessions: len(m.sessions), Adopted: m.adopted, Detached: m.detached}
	m.mu.Unlock()
	s.Pool = m.pools.Stats()
	return s
}
