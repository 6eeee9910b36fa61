// Package sandboxes works on the sandboxes of a configuration beside a running host, or without one: what `flynn sandbox` does.
//
// Start with Open. An Admin lists and removes what a store has on the engine, makes sandboxes and images, and gives the commands a Manager;
// Explain says where the commands of each agent run, and why. It decides nothing of that: the host's own enforcer does.
package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// Admin works on the sandboxes of a configuration.
type Admin struct {
	Driver   *docker.Driver
	Instance string
	Root     string // of the workspaces
	config   *config.Config
	specs    *specs.Set
}

// Open reads what the host would; it does not touch the engine. The caller closes the Driver.
func Open(c *config.Config) (*Admin, error) {
	if err := os.MkdirAll(c.Store.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make store folder: %w", err)
	}
	instance, err := fleet.InstanceName(c.Store.Dir)
	if err != nil {
		return nil, err
	}
	driver, err := fleet.Driver(c.Sandbox)
	if err != nil {
		return nil, err
	}
	return &Admin{Driver: driver, Instance: instance, Root: fleet.FoldersOf(c.Store.Dir).Workspaces, config: c, specs: specs.New(c)}, nil
}

// Spec is what the sandbox of that name is made of; "" is [sandbox].
func (a *Admin) Spec(name string) (spec.Spec, error) {
	s, known := a.specs.Named(name)
	if !known {
		names := strings.Join(append([]string{"[sandbox]"}, slices.Sorted(maps.Keys(a.config.Sandboxes))...), ", ")
		return s, fmt.Errorf("there is no [sandboxes.%s]: the configuration has %s", name, names)
	}
	return s, nil
}

// MountRules says which folders of the host the sandboxes may see.
func (a *Admin) MountRules() mounts.Rules { return specs.MountRules(a.config) }

// Manager makes sandboxes of this instance. It removes no leftovers and keeps no pool. What a sandbox may not reach is logged only: a
// running host may be using the store.
func (a *Admin) Manager(log *slog.Logger) (*sandbox.Manager, error) {
	supervisor, err := program.FindSupervisor(log)
	if err != nil {
		return nil, err
	}
	return sandbox.New(sandbox.Config{
		Driver: a.Driver, Instance: a.Instance, WorkspaceRoot: a.Root, Spec: specs.Of(a.config.Sandbox), Supervisor: supervisor, Log: log,
		MountRules: a.MountRules, Secret: func(name string) string { return a.config.Secrets()[name].Reveal() }, Egress: refusals{log: log},
	})
}

// refusals logs what proxies refuse.
type refusals struct {
	sandbox.NoEgress
	log *slog.Logger
}

// Decided implements sandbox.Egress.
func (r refusals) Decided(_ string, d egress.Decision) {
	if !d.Allowed {
		r.log.Warn("the proxy refused a connection", "method", d.Method, "host", d.Host, "port", d.Port, "reason", d.Reason)
	}
}

// Prune removes the containers that an earlier host of this store has left and the images that no sandbox needs any more,
// and returns both. A host that runs looks after its own, so then it refuses; none can start meanwhile. What has background
// processes goes as well.
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
	containers, err = manager.Prune(ctx)
	containers = sandbox.WithOwners(a.Root, a.Instance, containers)
	if err != nil {
		return containers, nil, err
	}
	images, err = manager.Images().Prune(ctx, a.specs.All())
	return containers, images, err
}

// PruneVolumes removes the volumes of this store with what is in them, and returns them. It refuses while a host runs, as
// Prune does, which comes first: a volume that a container uses stays.
func (a *Admin) PruneVolumes(ctx context.Context, log *slog.Logger) ([]driver.Owned, error) {
	unlock, err := lockStore(a.config.Store.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	left, err := a.Driver.ListVolumes(ctx, a.Instance)
	if err != nil {
		return nil, err
	}
	manager, err := a.Manager(log)
	if err != nil {
		return nil, err
	}
	return left, manager.RemoveVolumes(ctx, func(driver.Owned) bool { return true })
}

// Containers are those of this store, each with the session and the sandbox that it is of in its labels.
func (a *Admin) Containers(ctx context.Context) ([]driver.Owned, error) {
	owned, err := a.Driver.List(ctx, a.Instance)
	return sandbox.WithOwners(a.Root, a.Instance, owned), err
}

// Forget removes a session's containers and volumes of this store, while no host runs.
func (a *Admin) Forget(ctx context.Context, session string) error {
	ours := func(o driver.Owned) bool { // never trust a filter with somebody else's work
		return o.Labels[driver.LabelInstance] == a.Instance && o.Labels[driver.LabelSession] == session
	}
	containers, err := a.Containers(ctx)
	if err != nil {
		return err
	}
	volumes, err := a.Driver.ListVolumes(ctx, a.Instance)
	for _, c := range containers {
		if ours(c) {
			err = errors.Join(err, a.Driver.Remove(ctx, c.ID))
		}
	}
	for _, v := range volumes {
		if ours(v) {
			err = errors.Join(err, a.Driver.RemoveVolume(ctx, v.Name))
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

// Count counts the containers of each session of a store whose host does not run. Without [sandbox] there are none.
func Count(ctx context.Context, c *config.Config) (map[string]int, error) {
	if !c.Sandbox.Enabled {
		return nil, nil
	}
	a, err := Open(c)
	if err != nil {
		return nil, err
	}
	defer a.Driver.Close()
	owned, err := a.Containers(ctx)
	counts := map[string]int{}
	for _, o := range owned {
		if session := o.Labels[driver.LabelSession]; session != "" {
			counts[session]++
		}
	}
	return counts, err
}
