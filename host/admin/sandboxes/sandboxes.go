// Package sandboxes implements `flynn sandbox`: it works on the sandboxes of a configuration, with or without a running host.
//
// Start with Open. An Admin lists and removes what a store has on the engine, builds images, and creates a Manager; Explain says where the
// commands of each agent run, and why. Where commands run is decided by the host's own enforcer.
package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/store/database"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// Admin works on the sandboxes of a configuration.
type Admin struct {
	Driver   fleet.Engine
	Instance string
	Root     string // of the workspaces
	config   *config.Config
	specs    *specs.Set
}

// Open reads the same files as the host, and looks which engine answers. launcher is the command that runs plugins in a jail. The caller closes
// the Driver.
func Open(ctx context.Context, c *config.Config, launcher []string) (*Admin, error) {
	if err := os.MkdirAll(c.Store.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make store folder: %w", err)
	}
	instance, err := fleet.InstanceName(c.Store.Dir)
	if err != nil {
		return nil, err
	}
	engine, err := fleet.Open(ctx, c, launcher, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return &Admin{Driver: engine, Instance: instance, Root: fleet.FoldersOf(c.Store.Dir).Workspaces, config: c, specs: specs.New(c)}, nil
}

// Spec returns the specification of the sandbox of that name; "" means [sandbox].
func (a *Admin) Spec(name string) (spec.Spec, error) {
	s, known := a.specs.Named(name)
	if !known {
		names := strings.Join(append([]string{"[sandbox]"}, slices.Sorted(maps.Keys(a.config.Sandboxes))...), ", ")
		return s, fmt.Errorf("there is no [sandboxes.%s]: the configuration has %s", name, names)
	}
	return s, nil
}

// Record keeps the outcome of a whole self-test of the sandbox of that name, if the driver needs one before it is used.
func (a *Admin) Record(ctx context.Context, name string, r selftest.Report) error {
	s, err := a.Spec(name)
	if err != nil {
		return err
	}
	return fleet.Record(ctx, a.Driver, s, r)
}

// MountRules returns the rules for host folders that the sandboxes may mount.
func (a *Admin) MountRules() mounts.Rules { return specs.MountRules(a.config) }

// Manager returns a manager for this instance, which removes no leftovers and has no pools. Requests that the proxy refuses are only
// logged, because a running host may be using the store.
func (a *Admin) Manager(log *slog.Logger) (*sandbox.Manager, error) {
	supervisor, err := program.FindSupervisorFor(a.Driver, log)
	if err != nil {
		return nil, err
	}
	return sandbox.New(sandbox.Config{
		Driver: a.Driver, Instance: a.Instance, WorkspaceRoot: a.Root, Spec: specs.Of(a.config.Sandbox), Supervisor: supervisor, Log: log,
		MountRules: a.MountRules, Secret: func(name string) string { return a.config.Secrets()[name].Reveal() }, Egress: refusals{log: log},
	})
}

// refusals logs the requests that proxies refuse.
type refusals struct {
	sandbox.NoEgress
	log *slog.Logger
}

// Decided implements sandbox.Egress.
func (r refusals) Decided(_ message.WorkspaceKey, d egress.Decision) {
	if !d.Allowed {
		r.log.Warn("the proxy refused a connection", "method", d.Method, "host", d.Host, "port", d.Port, "reason", d.Reason)
	}
}

// Prune removes and returns the containers that an earlier host of this store has left, including those with background processes, and the
// images that no sandbox needs. It fails while a host runs, which does this itself; none can start meanwhile.
func (a *Admin) Prune(ctx context.Context, log *slog.Logger) (containers, images []driver.Owned, err error) {
	unlock, err := lockStore(a.config.Store.Dir)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	manager, err := a.Manager(log)
	if err != nil {
		return nil, nil, err
	}
	others, err := a.ofOthers(ctx)
	if err != nil {
		return nil, nil, err
	}
	containers, err = manager.Prune(ctx, others)
	containers = sandbox.WithOwners(a.Root, a.Instance, containers)
	if err != nil {
		return containers, nil, err
	}
	images, err = manager.Images().Prune(ctx, a.specs.All())
	return containers, images, err
}

// ofOthers returns the keys of the sandboxes that other hosts of the cluster have taken over, some of them from this one.
func (a *Admin) ofOthers(ctx context.Context) (map[string]bool, error) {
	at := database.At(a.config.Store.Location())
	if at.Host == "" {
		return nil, nil
	}
	r, err := at.OpenReader(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.SandboxesOfOthers(ctx, at.Host)
}

// PruneVolumes removes and returns the volumes of this store. It fails while a host runs. Call Prune first, because a volume that a
// container uses stays.
func (a *Admin) PruneVolumes(ctx context.Context, log *slog.Logger) ([]driver.Owned, error) {
	unlock, err := lockStore(a.config.Store.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	left, err := a.volumes(ctx)
	if err != nil {
		return nil, err
	}
	manager, err := a.Manager(log)
	if err != nil {
		return nil, err
	}
	return left, manager.RemoveVolumes(ctx, func(driver.Owned) bool { return true })
}

// PruneSnapshots removes the snapshots of sessions that the store does not have any more, or of all, and returns their sessions. It leaves those
// that the next start needs to complete an undo, with an error, and fails while a host runs.
func (a *Admin) PruneSnapshots(ctx context.Context, log *slog.Logger, all bool) (gone []message.WorkspaceKey, err error) {
	unlock, err := lockStore(a.config.Store.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	known, err := a.sessions(ctx)
	if err != nil {
		return nil, err
	}
	kept := fleet.SnapshotsOf(a.config.Store.Dir, log)
	list, err := kept.Sessions()
	for _, session := range list {
		switch {
		case known[session] && !all:
		case known[session] && kept.Pending(session):
			err = errors.Join(err, fmt.Errorf("the snapshots of %s stay, because an undo of its files was interrupted: start flynn, which completes it, and prune again", session))
		default:
			err = errors.Join(err, kept.Remove(session))
			gone = append(gone, session)
		}
	}
	return gone, err
}

// sessions returns the workspaces of the sessions of the store.
func (a *Admin) sessions(ctx context.Context) (map[message.WorkspaceKey]bool, error) {
	r, err := database.At(a.config.Store.Location()).OpenReader(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	list, err := r.Sessions(ctx, math.MaxInt32)
	known := map[message.WorkspaceKey]bool{}
	for _, s := range list {
		known[s.Key.Parse().Workspace()] = true
	}
	return known, err
}

// Containers returns the containers of this store, with their session and sandbox in the labels.
func (a *Admin) Containers(ctx context.Context) ([]driver.Owned, error) {
	owned, err := a.Driver.List(ctx, a.Instance)
	return sandbox.WithOwners(a.Root, a.Instance, owned), err
}

// volumes returns the volumes of this store; none if the engine has no volumes at all.
func (a *Admin) volumes(ctx context.Context) ([]driver.Owned, error) {
	keeper, ok := a.Driver.(driver.Volumes)
	if !ok {
		return nil, nil
	}
	return keeper.ListVolumes(ctx, a.Instance)
}

// Forget removes a session's containers and volumes of this store. It fails while a host runs.
func (a *Admin) Forget(ctx context.Context, session string) error {
	ours := func(o driver.Owned) bool { // not trusting the engine's filter: other people's volumes are at stake
		return o.Labels[driver.LabelInstance] == a.Instance && o.Labels[driver.LabelSession] == session
	}
	containers, err := a.Containers(ctx)
	if err != nil {
		return err
	}
	volumes, err := a.volumes(ctx)
	for _, c := range containers {
		if ours(c) {
			err = errors.Join(err, a.Driver.Remove(ctx, c.ID))
		}
	}
	for _, v := range volumes {
		if ours(v) {
			err = errors.Join(err, a.Driver.(driver.Volumes).RemoveVolume(ctx, v.Name))
		}
	}
	return err
}

// lockStore takes the lock that a running host holds.
func lockStore(dir string) (unlock func(), err error) {
	f, err := sqlite.Lock(dir)
	if errors.Is(err, sqlite.ErrLocked) {
		return nil, fmt.Errorf("a host is running on %s and looks after its own sandboxes: stop it first", dir)
	}
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// Count returns the number of containers of each session of a store whose host does not run; none if [sandbox] is not enabled.
func Count(ctx context.Context, c *config.Config, launcher []string) (map[message.WorkspaceKey]int, error) {
	if !c.Sandbox.Enabled {
		return nil, nil
	}
	a, err := Open(ctx, c, launcher)
	if err != nil {
		return nil, err
	}
	defer a.Driver.Close()
	owned, err := a.Containers(ctx)
	counts := map[message.WorkspaceKey]int{}
	for _, o := range owned {
		if session := message.WorkspaceKey(o.Labels[driver.LabelSession]); session != "" {
			counts[session]++
		}
	}
	return counts, err
}
