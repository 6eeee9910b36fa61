// Package fleet manages the configured sandboxes, the engine behind them, and the host's own machine: it gives each call of a session the
// machine on which it runs.
//
// Start with Fleet. Sandbox and Host return a session's machines, which share one folder, the session's workspace. engine.go follows the
// state of the engine, hosts.go closes unused machines, forget.go removes what deleted sessions leave, and snapshots.go keeps files for undo.
// Package specs converts the configuration to specifications.
// Package sandbox decides how a container lives, and package tool whether and where a call may run.
package fleet

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/fleet/drivers"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/pool"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
	"github.com/flynnhost/flynn/host/store"
)

// Store lists the sessions, and the homes of deleted ones that may still have something on the engine. A home is the key that names the
// sandboxes and the workspace of a session; see message.SessionKey.
type Store interface {
	Sessions(ctx context.Context, limit int) ([]turnlog.Session, error)
	ListLeftovers(ctx context.Context, kind turnlog.LeftoverKind) ([]turnlog.Leftover, error)
	DropLeftover(ctx context.Context, l turnlog.Leftover) error
	store.SandboxRecords
}

// Media stores the files of senders, which count towards their limits.
type Media interface {
	Held(sender message.SenderKey) (bytes int64)
}

// Outside is the network by which the proxies of sandboxes reach hosts, and the roots that verify the hosts of credentials. The zero value
// is the host's own network and roots.
type Outside struct {
	Network egress.Network
	Roots   *x509.CertPool
}

// Config configures a Fleet.
type Config struct {
	Dir     string // of the store; no other host may use it
	Store   Store
	Cluster Cluster        // nil: there are no other hosts
	Media   Media          // nil: none
	Egress  sandbox.Egress // nil: decisions are not recorded
	Outside Outside
	Drivers *drivers.Set // of the configuration
	Log     *slog.Logger
}

// Fleet provides the machines that tools run on. Its methods are safe for concurrent use.
type Fleet struct {
	config   Config
	log      *slog.Logger
	instance string
	folders  Folders
	holds    *workspace.Holds // on the workspaces that hosts have open
	quota    *quota.Keeper
	hosts    *hosts
	setup    atomic.Pointer[setup]
	looked   chan struct{} // closed after the first check of the engine
	tidied   chan struct{} // closed when manager is there: what earlier hosts left on the engine is removed
	worked   sync.Map      // the epoch in which a conversation has last worked in a workspace, by message.WorkspaceKey
	tests    selfTests

	snapshots     *snapshot.Store
	snapshotLimit atomic.Int64      // in bytes, of one session
	unrecorded    []snapshot.Undone // undos that were completed at the start

	mu          sync.Mutex
	manager     *sandbox.Manager     // nil until the engine has answered once
	chosen      Engine               // the same
	unavailable error                // why there are no sandboxes, as of the last check
	unproved    error                // why the engine, which answers, may not be used
	engine      *driver.Capabilities // the engine when it last answered, or nil
}

// setup is the part of a configuration about sandboxes. It is immutable.
type setup struct {
	sandbox config.Sandbox // [sandbox]
	specs   *specs.Set
	pools   []sandbox.Pool
	poolCPU float64
	mounts  mounts.Rules
	secrets map[string]config.Secret
}

// New names the instance, and repairs the workspaces after a crash. Call Configure before anything else.
func New(c Config) (*Fleet, error) {
	instance, err := InstanceName(c.Dir)
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		config: c, log: c.Log, instance: instance, folders: FoldersOf(c.Dir), holds: workspace.NewHolds(), looked: make(chan struct{}), tidied: make(chan struct{}),
		unavailable: ErrOff,
		tests:       selfTests{start: make(chan wantedTest, 1)},
	}
	if err := workspace.Recover(f.folders.Workspaces); err != nil {
		f.log.Error("cannot finish moving workspaces", "error", err)
	}
	limits := quota.Config{
		Measure: f.measure, Running: f.running,
		Place: message.WorkspaceKey.Scope,
	}
	if c.Media != nil {
		limits.Media = c.Media.Held
	}
	f.quota = quota.New(limits)
	f.newSnapshots()
	f.hosts = &hosts{folders: f.folders, holds: f.holds, quota: f.quota, log: f.log, now: time.Now, open: map[message.WorkspaceKey]*hostMachine{}}
	return f, nil
}

// measure returns what a session holds on the disk, or what its snapshots do.
func (f *Fleet) measure(session message.WorkspaceKey) int64 {
	if of, ok := strings.CutSuffix(string(session), string(snapshotSuffix)); ok {
		return f.folders.SnapshotSize(message.WorkspaceKey(of))
	}
	return f.folders.Size(session)
}

// Instance returns the name that distinguishes the store from others on one engine.
func (f *Fleet) Instance() string { return f.instance }

// Folders returns the folders of sessions on the host.
func (f *Fleet) Folders() Folders { return f.folders }

// Quota returns the keeper of the senders' limits.
func (f *Fleet) Quota() *quota.Keeper { return f.quota }

// Configure applies the sandboxes of a configuration.
func (f *Fleet) Configure(c *config.Config) {
	s := &setup{
		sandbox: c.Sandbox, specs: specs.New(c), pools: specs.Pools(c), poolCPU: float64(c.Sandbox.WarmPoolCPU) / 100,
		mounts: specs.MountRules(c), secrets: c.Secrets(),
	}
	f.quota.Configure(limits(c.Limits))
	f.snapshotLimit.Store(int64(c.Limits.SnapshotDisk))
	f.hosts.configure(time.Duration(c.Sandbox.TimeoutSeconds) * time.Second)
	f.setup.Store(s) // stored first, so that a manager that is made meanwhile gets these pools
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fillPools()
}

// limits converts the limits of a configuration.
func limits(c config.Limits) quota.Limits {
	return quota.Limits{
		SenderSessions: c.SenderSessions, SenderSandboxes: c.SenderSandboxes, Sandboxes: c.Sandboxes, SenderProcesses: c.SenderProcesses,
		Processes: c.Processes, SessionDisk: int64(c.SessionDisk), SenderDisk: int64(c.SenderDisk), AllDisk: int64(c.Disk),
	}
}

// sandboxes returns the manager of sandboxes, or nil if there is none yet.
func (f *Fleet) sandboxes() *sandbox.Manager {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.manager
}

func (f *Fleet) spec(name string) (spec.Spec, bool) { return f.setup.Load().specs.Named(name) }

// Spec returns the specification of a sandbox.
func (f *Fleet) Spec(name string) (spec.Spec, bool) { return f.spec(name) }

func (f *Fleet) mountRules() mounts.Rules { return f.setup.Load().mounts }

func (f *Fleet) secret(name string) string { return f.setup.Load().secrets[name].Reveal() }

// Digest returns the digest of a sandbox's current specification; "" if there is no sandbox of that name.
func (f *Fleet) Digest(name string) string {
	s, known := f.spec(name)
	if !known {
		return ""
	}
	return s.Digest()
}

// Dir returns a session's workspace on the host.
func (f *Fleet) Dir(session message.WorkspaceKey) string {
	return workspace.Path(f.folders.Workspaces, session)
}

// Host returns the host's own machine for a session.
func (f *Fleet) Host(session message.WorkspaceKey) (machine.Machine, error) {
	h, err := f.hosts.get(session)
	if err != nil {
		return nil, err
	}
	f.quota.Changed(session)
	return h, nil
}

// Visit is Host for use until leave is called. It leaves nothing open, so the workspace can be moved afterwards.
func (f *Fleet) Visit(session message.WorkspaceKey) (m machine.Machine, leave func(), err error) {
	return f.hosts.visit(session)
}

// Sandbox returns a session's sandbox of that name, which is started on first use.
func (f *Fleet) Sandbox(ctx context.Context, session message.WorkspaceKey, name string) (machine.Machine, error) {
	if err := f.Available(ctx, session, name); err != nil {
		return nil, err
	}
	in := f.setup.Load()
	spec, known := in.specs.Named(name)
	if !known {
		return nil, fmt.Errorf("%w: there is no [sandboxes.%s]", machine.ErrUnavailable, name)
	}
	if err := in.specs.Permit(name); err != nil {
		return nil, fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	manager, err := f.made(ctx)
	if err != nil {
		return nil, err
	}
	f.quota.Changed(session)
	return manager.Get(ctx, session, name, spec)
}

// made returns the manager. If the engine has answered, it waits for the manager until ctx ends.
func (f *Fleet) made(ctx context.Context) (*sandbox.Manager, error) {
	if err := f.answers(ctx); err != nil && f.sandboxes() == nil {
		return nil, err
	}
	defer machine.NoticeSlow(ctx, "waiting until the sandboxes of an earlier run are removed")()
	select {
	case <-f.tidied:
		return f.sandboxes(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// RunCode runs a program in its own container.
func (f *Fleet) RunCode(ctx context.Context, c sandbox.Code) (sandbox.CodeResult, error) {
	manager, err := f.made(ctx)
	if err != nil {
		return sandbox.CodeResult{}, err
	}
	return manager.RunCode(ctx, c)
}

// Available returns why the session's sandbox of that name cannot be used now, or nil. It waits for the first check of the engine. A
// sandbox that the session has is available while the engine does not answer.
func (f *Fleet) Available(ctx context.Context, session message.WorkspaceKey, name string) error {
	spec, _ := f.spec(name)
	err := f.answers(ctx)
	if m := f.sandboxes(); err != nil && m != nil && m.Serves(session, name) {
		err = nil
	}
	if err != nil {
		return err
	}
	return f.supports(spec)
}

// AvailableFor returns why containers of these specifications, by language, cannot be used now, or nil.
func (f *Fleet) AvailableFor(ctx context.Context, byLanguage map[string]spec.Spec) error {
	if err := f.answers(ctx); err != nil {
		return err
	}
	own, _ := f.spec("")
	all := []spec.Spec{own}
	for _, language := range slices.Sorted(maps.Keys(byLanguage)) {
		all = append(all, byLanguage[language])
	}
	return f.supports(all...)
}

// AsOfNow returns why a new sandbox of that name cannot be made now, or nil. It does not wait.
func (f *Fleet) AsOfNow(name string) error {
	spec, _ := f.spec(name)
	f.mu.Lock()
	down := f.unavailable
	f.mu.Unlock()
	select {
	case <-f.looked:
	default:
		down = errLooking
	}
	if down != nil {
		return down
	}
	return f.supports(spec)
}

// PoolStats returns the counters of the warm pools.
func (f *Fleet) PoolStats() pool.Stats {
	if m := f.sandboxes(); m != nil {
		return m.Stats().Pool
	}
	return pool.Stats{}
}
