// Package drivers makes sandboxes by a plugin: it is the driver.Driver of a plugin of kind sandbox.
//
// Start with Set, which applies the configuration to plugin processes, and Driver. The plugin only controls: package launch dials the
// supervisor of each container, so that commands go on while no plugin process runs. Until the next process is ready, the driver is
// unavailable.
//
// No claim of a plugin is believed. A Driver creates a container only if a self-test has passed for what the container relies on
// (Reliance), made with the same release of the plugin, the same settings and the same engine; Untested is for the self-test itself.
package drivers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/host/plugin/kind/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/engine"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/sdk/proto/sandboxv1"
)

// Driver makes sandboxes by the plugin of one [drivers] table. Its methods are safe for concurrent use.
type Driver struct {
	name   string
	proofs *Proofs
	staged string // folder that the plugin can read, see stage

	mu     sync.Mutex
	config config.Driver
	client *sandbox.Client      // nil while no process is ready
	has    *driver.Capabilities // as last told
	binds  bool                 // the same
	copies bool                 // the same
	ready  chan struct{}        // closed while client is there, and replaced when it goes
}

var (
	_ driver.Driver  = (*Driver)(nil)
	_ driver.Dialed  = (*Driver)(nil)
	_ driver.Copier  = (*Driver)(nil)
	_ driver.Puller  = (*Driver)(nil)
	_ plugin.Handler = (*Driver)(nil)
)

// Serve implements plugin.Handler.
func (d *Driver) Serve(ctx context.Context, c *kind.Conn) error {
	client := sandbox.NewClient(c)
	d.mu.Lock()
	d.client, d.has = client, nil
	close(d.ready)
	d.mu.Unlock()
	<-ctx.Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.client, d.ready = nil, make(chan struct{})
	return nil
}

// now returns the client of the process that is ready.
func (d *Driver) now() (*sandbox.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client == nil {
		return nil, fmt.Errorf("%w: the plugin of [drivers.%s] is not running: see flynn plugin list and flynn plugin logs %[2]s", machine.ErrUnavailable, d.name)
	}
	return d.client, nil
}

// readyTimeout bounds the wait for a process: one that crashes is back by then, and one that was stopped or is quarantined does not come back.
const readyTimeout = 5 * time.Second

// wait waits for a process until ctx ends, or readyTimeout is over.
func (d *Driver) wait(ctx context.Context) (*sandbox.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	d.mu.Lock()
	ready := d.ready
	d.mu.Unlock()
	select {
	case <-ready:
	case <-ctx.Done():
	}
	return d.now()
}

// explain turns a failure of the plugin into an error of the sandbox.
func (d *Driver) explain(err error) error {
	failure, is := errors.AsType[*sandbox.Failure](err)
	switch {
	case err == nil:
		return nil
	case is && failure.Code == codes.NotFound:
		return fmt.Errorf("%w: driver %s: %w", driver.ErrNoImage, d.name, err)
	}
	return fmt.Errorf("%w: driver %s: %w", machine.ErrUnavailable, d.name, err)
}

// Address implements driver.Locator.
func (d *Driver) Address() string { return engine.DriverPrefix + d.name }

// Close does nothing: the plugin's process belongs to its host.
func (d *Driver) Close() error { return nil }

// Ping implements driver.Driver. It waits a little for the plugin.
func (d *Driver) Ping(ctx context.Context) error {
	_, err := d.Capabilities(ctx)
	return err
}

// limits are the limits of the contract.
var limits = map[sandboxv1.Limit]driver.Limit{
	sandboxv1.Limit_LIMIT_MEMORY: driver.MemoryLimit, sandboxv1.Limit_LIMIT_CPU: driver.CPULimit,
	sandboxv1.Limit_LIMIT_PIDS: driver.PidsLimit, sandboxv1.Limit_LIMIT_LEFT_MEMORY: driver.LeftMemory,
}

// features are the features of the contract.
var features = map[sandboxv1.Feature]driver.Feature{
	sandboxv1.Feature_FEATURE_SECCOMP: driver.Seccomp, sandboxv1.Feature_FEATURE_USER_NAMESPACES: driver.UserNamespaces,
	sandboxv1.Feature_FEATURE_SNAPSHOTS: driver.Snapshots,
}

// Capabilities implements driver.Driver. It waits a little for the plugin.
func (d *Driver) Capabilities(ctx context.Context) (driver.Capabilities, error) {
	client, err := d.wait(ctx)
	if err != nil {
		return driver.Capabilities{}, err
	}
	said, err := client.Capabilities(ctx)
	if err != nil {
		return driver.Capabilities{}, d.explain(err)
	}
	has := driver.Capabilities{
		Engine: said.Engine + ", by plugin " + d.plugin(), Address: d.Address(), Runtimes: said.Runtimes, Networks: append([]string{}, said.Networks...),
		Shared: said.Shared,
	}
	for _, l := range said.Lacks {
		if limit, known := limits[l.Limit]; known {
			has.Lacks = append(has.Lacks, driver.Lack{Limit: limit, Why: l.Why})
		}
	}
	for _, f := range said.Features {
		if feature, known := features[f]; known {
			has.Features = append(has.Features, feature)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.has, d.binds, d.copies = &has, said.Binds, said.Copies
	return has, nil
}

func (d *Driver) plugin() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config.Plugin
}

// Binds implements driver.Driver: as the plugin last said.
func (d *Driver) Binds() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.binds
}

// Copies implements driver.Copier: as the plugin last said.
func (d *Driver) Copies() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.copies
}

// Create implements driver.Driver. It refuses a container that relies on what no self-test has shown.
func (d *Driver) Create(ctx context.Context, c driver.Container) (string, error) {
	if err := d.Proved(ctx, RelianceOf(c)); err != nil {
		return "", err
	}
	return d.create(ctx, c)
}

// create creates a container whatever was shown.
func (d *Driver) create(ctx context.Context, c driver.Container) (string, error) {
	client, err := d.now()
	if err != nil {
		return "", err
	}
	has, err := d.known(ctx)
	if err != nil {
		return "", err
	}
	if err := has.Supports(c.Network, c.Runtime, c.BestEffort); err != nil {
		return "", err
	}
	c, clear, err := d.stage(c)
	if err != nil {
		return "", fmt.Errorf("%w: driver %s: %w", machine.ErrUnavailable, d.name, err)
	}
	defer clear()
	r, err := request(c)
	if err != nil {
		return "", fmt.Errorf("%w: driver %s: %w", machine.ErrUnavailable, d.name, err)
	}
	id, err := client.Create(ctx, r)
	return id, d.explain(err)
}

// known returns the capabilities as the plugin last told them.
func (d *Driver) known(ctx context.Context) (driver.Capabilities, error) {
	d.mu.Lock()
	has := d.has
	d.mu.Unlock()
	if has != nil {
		return *has, nil
	}
	return d.Capabilities(ctx)
}

var mountKinds = map[driver.MountKind]sandboxv1.MountKind{
	driver.Bind: sandboxv1.MountKind_MOUNT_KIND_UNSPECIFIED, driver.Memory: sandboxv1.MountKind_MOUNT_KIND_MEMORY,
	driver.Disk: sandboxv1.MountKind_MOUNT_KIND_DISK, driver.Copy: sandboxv1.MountKind_MOUNT_KIND_COPY,
}

// request is a container in the words of the contract.
func request(c driver.Container) (*sandboxv1.CreateRequest, error) {
	if c.Role != driver.Supervised {
		return nil, errors.New("it makes no volumes and no services: use a container engine, or remove volumes and compose from [sandbox]")
	}
	r := &sandboxv1.CreateRequest{
		Key: c.Key, Name: c.Name, Image: c.Image, Entrypoint: c.Entrypoint, Labels: c.Labels, Network: c.Network, MemoryBytes: c.MemoryBytes,
		Cpus: c.CPUs, PidsLimit: c.PidsLimit + driver.OwnTasks, BestEffort: c.BestEffort, Runtime: c.Runtime, Hosts: c.Hosts, Identity: c.Identity,
	}
	for _, m := range c.Mounts {
		kind, knows := mountKinds[m.Kind]
		if !knows {
			return nil, fmt.Errorf("it makes no volumes, such as that at %s: use a container engine, or remove volumes from [sandbox]", m.Target)
		}
		r.Mounts = append(r.Mounts, &sandboxv1.Mount{Kind: kind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly, Bytes: m.Bytes, Alone: m.Alone})
	}
	return r, nil
}

// Pull implements driver.Puller. Of what happens within a second the last is told. A plugin may fetch no images.
func (d *Driver) Pull(ctx context.Context, image string, progress func(line string)) error {
	client, err := d.now()
	if err != nil {
		return err
	}
	tell, stop := machine.Throttle(time.Second, progress)
	defer stop()
	return d.explain(client.Pull(ctx, image, tell))
}

// Attach implements driver.Driver. Nobody calls it: supervisors of a driver.Dialed listen.
func (d *Driver) Attach(context.Context, string, io.Writer) (driver.Stream, error) {
	return nil, fmt.Errorf("%w: a container of driver %s is dialed, not attached to", machine.ErrUnavailable, d.name)
}

// Start implements driver.Driver.
func (d *Driver) Start(ctx context.Context, id string) error {
	client, err := d.now()
	if err != nil {
		return err
	}
	return d.explain(client.Start(ctx, id))
}

// Endpoint implements driver.Dialed.
func (d *Driver) Endpoint(ctx context.Context, id string) (driver.Endpoint, error) {
	client, err := d.now()
	if err != nil {
		return driver.Endpoint{}, err
	}
	d.mu.Lock()
	public := d.config.Public
	d.mu.Unlock()
	network, address, err := client.Endpoint(ctx, id, public)
	return driver.Endpoint{Network: network, Address: address}, d.explain(err)
}

// Remove implements driver.Driver.
func (d *Driver) Remove(ctx context.Context, id string) error {
	client, err := d.now()
	if err != nil {
		return err
	}
	return d.explain(client.Remove(ctx, id))
}

// List implements driver.Driver.
func (d *Driver) List(ctx context.Context, instance string) ([]driver.Owned, error) {
	client, err := d.now()
	if err != nil {
		return nil, err
	}
	listed, err := client.List(ctx, instance)
	if err != nil {
		return nil, d.explain(err)
	}
	var out []driver.Owned
	for _, c := range listed {
		out = append(out, driver.Owned{ID: c.ID, Name: c.Name, Labels: c.Labels, State: c.State, Image: c.Image, Created: c.Created})
	}
	return driver.OwnedBy(instance, out), nil
}
