package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/native/imagefiles"
	"github.com/flynnhost/flynn/host/sandbox/native/within"
)

// Driver makes native sandboxes.
type Driver struct {
	folder string
	find   func() (string, error) // the supervisor
	groups *groups
	images *imagefiles.Store
	ids    ids

	probing sync.Mutex // guards works and failed
	works   bool
	failed  failure

	supervisor string // set by the probe that works
	server     server
	spares     spares

	mu     sync.Mutex
	lives  map[string]*life // by id
	waits  map[string]*stream
	wishes map[string]wish
}

// wish is a sandbox that was created and not started. Nothing of it is on the disk yet.
type wish struct {
	driver.Container
	within  within.Config
	kind    *kind // may be nil
	created time.Time
}

// failure is the result of the last probe that failed.
type failure struct {
	err  error
	when time.Time
}

var _ driver.Driver = (*Driver)(nil)

// New returns a Driver. It starts nothing; Ping does.
func New(c Config) (*Driver, error) {
	if err := os.MkdirAll(c.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("use native sandboxes: %w", err)
	}
	return &Driver{
		folder: c.Folder, find: c.Supervisor, groups: openGroups("flynn-sandboxes"), ids: findIDs(),
		images: imagefiles.New(c.Images, imagefiles.Limits{}),
		lives:  map[string]*life{}, waits: map[string]*stream{}, wishes: map[string]wish{},
	}, nil
}

// probeAgain is how long a failed probe stands.
const probeAgain = 30 * time.Second

// Ping implements driver.Driver. It sets up a sandbox and runs a process in it: only that shows what the system allows.
func (d *Driver) Ping(ctx context.Context) error {
	d.probing.Lock()
	defer d.probing.Unlock()
	if d.works {
		return nil
	}
	if d.failed.err != nil && time.Since(d.failed.when) < probeAgain {
		return d.failed.err
	}
	if err := d.probe(ctx); err != nil {
		d.failed = failure{fmt.Errorf("%w: %w", machine.ErrUnavailable, err), time.Now()}
		return d.failed.err
	}
	d.works = true
	return nil
}

// Address implements driver.Locator.
func (d *Driver) Address() string { return "native" }

// Close ends the process that starts sandboxes, and removes the control group of all of them if none is left in it.
func (d *Driver) Close() error {
	d.closeSpare()
	d.server.close()
	d.groups.close()
	return nil
}

// SupervisorCapabilities implements driver.Confiner.
func (d *Driver) SupervisorCapabilities() uint64 {
	if d.ids.single != "" {
		return within.SingleCapabilities
	}
	return within.KeptCapabilities
}

// SupervisorUser implements driver.Direct.
func (d *Driver) SupervisorUser() uint32 {
	for _, r := range d.ids.Users {
		if d.ids.single != "" || r.Inside == 0 {
			return uint32(r.Outside)
		}
	}
	return 0
}

// Binds implements driver.Driver.
func (d *Driver) Binds() bool { return true }

// Capabilities implements driver.Driver.
func (d *Driver) Capabilities(context.Context) (driver.Capabilities, error) {
	engine, lacks := "native", d.groups.lacks()
	if d.ids.single != "" {
		engine = "native, with one user"
		lacks = append(lacks, driver.Lack{Limit: driver.LeftMemory, Why: d.ids.single})
	}
	return driver.Capabilities{Engine: engine, Address: d.Address(), Networks: []string{"none", "host"}, Lacks: lacks, Features: d.features()}, nil
}

// features are what every sandbox has. One that root makes maps root to itself.
func (d *Driver) features() []driver.Feature {
	all := []driver.Feature{driver.Seccomp, driver.Snapshots}
	if !slices.ContainsFunc(d.ids.Users, func(r within.Range) bool { return r.Inside == 0 && r.Outside == 0 }) {
		all = append(all, driver.UserNamespaces)
	}
	return all
}

// Create implements driver.Driver.
func (d *Driver) Create(ctx context.Context, c driver.Container) (string, error) {
	if err := check(c); err != nil {
		return "", fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	if err := driver.Without(d.groups.lacks(), c.BestEffort); err != nil {
		return "", err
	}
	id := cmp.Or(c.Key, c.Name)
	if err := valid(id); err != nil {
		return "", err
	}
	var image imagefiles.Image
	if filepath.IsAbs(c.Image) {
		var err error
		if image, err = d.images.Open(ctx, c.Image); err != nil {
			return "", fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.wishes[id]; ok || d.lives[id] != nil {
		return id, nil
	}
	w := d.within(c, image)
	k := kindOf(w, c)
	if c.Network == "none" && !d.spares.has(k) {
		d.server.prepare()
	}
	d.wishes[id] = wish{c, w, k, time.Now()}
	return id, nil
}

// check returns why a native sandbox cannot be such a container.
func check(c driver.Container) error {
	switch {
	case c.Role != driver.Supervised:
		return errors.New("a native sandbox has no services and no volumes: use an engine")
	case len(c.Entrypoint) > 2:
		return errors.New("a native sandbox runs its supervisor with one argument, the nonce")
	case c.Runtime != "":
		return fmt.Errorf("a native sandbox has no runtime %q: remove runtime from [sandbox], or use an engine", c.Runtime)
	case c.Network != "none" && c.Network != "host":
		return fmt.Errorf("a native sandbox has no network %q: write allowlist, none or host, or use an engine", c.Network)
	}
	for _, m := range c.Mounts {
		if m.Kind == driver.Volume {
			return fmt.Errorf("a native sandbox has no volumes, such as that at %s: use an engine", m.Target)
		}
	}
	return nil
}

// Attach implements driver.Driver.
func (d *Driver) Attach(_ context.Context, id string, stderr io.Writer) (driver.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.wishes[id]; !ok || d.waits[id] != nil {
		return nil, fmt.Errorf("attach to sandbox %s: it was not created, was started, or is attached", id)
	}
	s := &stream{stderr: stderr}
	d.waits[id] = s
	return s, nil
}

// Start implements driver.Driver. It returns while the sandbox still sets itself up; a failure of that is one of the stream. The record is
// written meanwhile, first without the process and then with it.
func (d *Driver) Start(ctx context.Context, id string) error {
	d.mu.Lock()
	c, ok := d.wishes[id]
	s := d.waits[id]
	delete(d.wishes, id)
	delete(d.waits, id)
	d.mu.Unlock()
	if !ok || s == nil {
		return fmt.Errorf("start sandbox %s: it was not created, was started, or is not attached", id)
	}
	r := record{Name: c.Name, Labels: c.Labels, Created: c.created}
	taken := d.spares.take(c.kind)
	if taken != nil {
		r.runs(taken.life)
	}
	written := make(chan error, 1)
	go func() { written <- d.write(id, r) }()
	l, err := d.launch(ctx, id, c, s, taken)
	noted := <-written
	if err == nil && noted == nil && (taken == nil || l != taken.life) {
		r.runs(l)
		noted = d.write(id, r)
	}
	if err != nil || noted != nil {
		if err == nil {
			err = errors.Join(noted, l.end(ctx))
			d.groups.remove(l.groups)
		}
		return fmt.Errorf("%w: start a native sandbox: %w", machine.ErrUnavailable, err)
	}
	d.mu.Lock()
	d.lives[id] = l
	d.mu.Unlock()
	d.prepareSpare(c.kind)
	return nil
}

// Remove implements driver.Driver.
func (d *Driver) Remove(ctx context.Context, id string) error {
	if id = d.idOf(id); id == "" {
		return nil
	}
	d.mu.Lock()
	l, s := d.lives[id], d.waits[id]
	_, wished := d.wishes[id]
	delete(d.wishes, id)
	delete(d.waits, id)
	d.mu.Unlock()
	if s != nil {
		s.abandon()
	}
	if wished {
		return nil
	}
	if l == nil {
		r, err := d.read(id)
		if err != nil {
			return err
		}
		l = regain(id, r)
	}
	if err := l.end(ctx); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	d.mu.Lock()
	delete(d.lives, id)
	d.mu.Unlock()
	d.groups.remove(l.groups)
	return d.erase(id)
}

// List implements driver.Driver.
func (d *Driver) List(_ context.Context, instance string) ([]driver.Owned, error) {
	records, err := d.records()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	for id, w := range d.wishes {
		records[id] = record{Name: w.Name, Labels: w.Labels, Created: w.created}
	}
	d.mu.Unlock()
	var owned []driver.Owned
	for id, r := range records {
		state := "created"
		if r.PID != 0 {
			if state = "running"; !r.lives() {
				state = "exited"
			}
		}
		owned = append(owned, driver.Owned{ID: id, Name: r.Name, Labels: r.Labels, State: state, Created: r.Created})
	}
	slices.SortFunc(owned, func(a, b driver.Owned) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return driver.OwnedBy(instance, owned), nil
}
