package drivers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/instances"
	"github.com/flynnhost/flynn/host/plugin/kind/sandbox"
)

// Set is the drivers of a configuration. Its methods are safe for concurrent use.
type Set struct {
	proofs *Proofs
	staged string // folder, see stage

	mu  sync.Mutex
	all map[string]*Driver
}

var _ instances.Kind[config.Driver] = (*Set)(nil)

// New returns the drivers of a store, whose folder is dir.
func New(dir string) *Set {
	return &Set{proofs: &Proofs{path: filepath.Join(dir, proofsFile)}, staged: filepath.Join(dir, copiesFolder), all: map[string]*Driver{}}
}

// Get returns the driver of a [drivers] table, whether its plugin runs or not.
func (ds *Set) Get(name string) *Driver {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.all[name]
	if d == nil {
		d = &Driver{name: name, proofs: ds.proofs, staged: filepath.Join(ds.staged, name), ready: make(chan struct{})}
		ds.all[name] = d
	}
	return d
}

// Enabled implements instances.Kind: only drivers that make the sandboxes are passed to it.
func (ds *Set) Enabled(c config.Driver) bool { return c.Plugin != "" }

// Same implements instances.Kind.
func (ds *Set) Same(a, b config.Driver) bool { return a.Same(b) }

// Instance implements instances.Kind.
func (ds *Set) Instance(name string, c config.Driver) (plugin.Instance, plugin.Handler, error) {
	d := ds.Get(name)
	if err := os.MkdirAll(d.staged, 0o700); err != nil {
		return plugin.Instance{}, nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.config = c
	return plugin.Instance{
		Name: name, Plugin: c.Plugin, Kind: sandbox.Name, Settings: c.Settings, Secrets: instances.Reveal(c.Secrets),
		Grant: plugin.Grant{Read: append(slices.Clone(c.Read), d.staged), Write: c.Write, Network: c.Network, Sockets: c.Sockets, Memory: int64(c.MemoryLimit)},
	}, d, nil
}

// Ended implements instances.Kind.
func (ds *Set) Ended(string) {}

// Alone is a driver whose plugin process runs for one command, beside a running host or without one. Close ends the process.
type Alone struct {
	*Driver
	stop  context.CancelFunc
	ended chan error
	run   string // folder
}

// Start starts the plugin of the driver that makes the sandboxes of a configuration. launcher is the command that runs jail.Enter; nil does not
// confine the plugin.
func Start(c *config.Config, launcher []string, log *slog.Logger) (*Alone, error) {
	name := c.Sandbox.Driver()
	run, err := os.MkdirTemp("", "fd")
	if err != nil {
		return nil, err
	}
	h, err := plugin.New(plugin.Config{
		Dir: c.Plugins.Dir, StateDir: filepath.Join(c.Store.Dir, "state"), RunDir: filepath.Join(run, "r"), DevPaths: c.Plugins.DevPaths, Log: log,
		Contain: instances.Containment(c, launcher),
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(run))
	}
	set := New(c.Store.Dir)
	i, handler, err := set.Instance(name, c.Drivers[name])
	if err == nil {
		err = h.Add(i, handler)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the plugin of [drivers.%s]: %w", name, err), os.RemoveAll(run))
	}
	ctx, stop := context.WithCancel(context.Background())
	a := &Alone{Driver: set.Get(name), stop: stop, ended: make(chan error, 1), run: run}
	go func() { a.ended <- h.Run(ctx) }() // Close waits for it
	return a, nil
}

// Close ends the plugin's process.
func (a *Alone) Close() error {
	a.stop()
	return errors.Join(<-a.ended, os.RemoveAll(a.run))
}
