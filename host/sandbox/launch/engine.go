package launch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/compose"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// engine creates containers for this instance.
type engine struct{ Config }

// create creates the container, pulling its image if that is missing.
func (e *engine) create(ctx context.Context, c driver.Container) (string, error) {
	id, err := e.Driver.Create(ctx, c)
	if !errors.Is(err, driver.ErrNoImage) {
		return id, err
	}
	puller, ok := e.Driver.(driver.Puller)
	if !ok {
		return "", err
	}
	e.Log.Info("sandbox image is missing, pulling it", "image", c.Image)
	if err := image.Pull(ctx, puller, c.Image, err); err != nil {
		return "", fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	return e.Driver.Create(ctx, c)
}

// own registers the key of a container before it exists, so that it is never seen without an owner.
func (e *engine) own(key string) *container.Ownership { return e.Keys.Own(e.Run, key) }

// labels returns the labels of a container that this process makes, by which it is found if the process dies.
func (e *engine) labels(key string, life time.Duration) map[string]string {
	return map[string]string{
		driver.LabelInstance: e.Instance, driver.LabelHost: e.Host.ID(), driver.LabelPlace: e.Host.Place(), driver.LabelKey: key,
		driver.LabelExpires: time.Now().Add(life).UTC().Format(time.RFC3339),
	}
}

// The limits of a container that prepares a volume.
const (
	preparerMemory = 64 << 20
	preparerPids   = 8
)

// preparer describes a container that prepares a volume. No command ever runs in it.
func (e *engine) preparer(purpose, image string, life time.Duration, entrypoint []string, mounts ...driver.Mount) driver.Container {
	key := spec.NewKey()
	return driver.Container{
		Key: key, Name: "flynn-" + purpose + "-" + key[:16], Image: image, Role: driver.Preparer, Entrypoint: entrypoint,
		Labels: e.labels(key, life), Mounts: mounts, Network: "none", MemoryBytes: preparerMemory, CPUs: 1, PidsLimit: preparerPids,
	}
}

// removeVolumes removes those of this instance's volumes for which such returns true. It keeps one that a container uses and returns an
// error.
func (e *engine) removeVolumes(ctx context.Context, such func(driver.Owned) bool) error {
	d, ok := e.Driver.(driver.Volumes)
	if !ok {
		return nil
	}
	owned, err := d.ListVolumes(ctx, e.Instance)
	if err != nil {
		return err
	}
	var all error
	for _, v := range driver.OwnedBy(e.Instance, owned) {
		if such(v) {
			all = errors.Join(all, d.RemoveVolume(ctx, v.Name))
		}
	}
	return all
}

// openSources checks folders and files of the host against the current rules and opens them. Close the results.
func (e *engine) openSources(ctx context.Context, wanted []spec.HostMount) ([]*mounts.Source, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	rules, err := e.mountRules(ctx)
	if err != nil {
		return nil, err
	}
	var sources []*mounts.Source
	for _, h := range wanted {
		s, err := rules.Open(h.Source)
		if err != nil {
			closeAll(sources)
			return nil, fmt.Errorf("sandbox: may not mount %w", err)
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// lookAgain checks, for a container without a supervisor to report its mounts, that the paths still lead where they did before it started.
// It misses a swap that was undone in between, so a process that can write to a folder above a service's source must be trusted.
func (e *engine) lookAgain(ctx context.Context, before []*mounts.Source, binds []compose.Bind) error {
	rules, err := e.mountRules(ctx)
	if len(before) == 0 || err != nil {
		return err
	}
	for i, s := range before {
		now, err := rules.Open(binds[i].Source)
		if err != nil {
			return err
		}
		same := now.ID() == s.ID() && now.Path == s.Path
		if now.Close(); !same {
			return fmt.Errorf("%s was replaced meanwhile", binds[i].Source)
		}
	}
	return nil
}

// mountRules returns the configured rules, extended by paths that only the engine knows.
func (e *engine) mountRules(ctx context.Context) (mounts.Rules, error) {
	if e.MountRules == nil {
		return mounts.Rules{}, nil
	}
	rules := e.MountRules()
	engine, err := e.Driver.Capabilities(ctx)
	if err != nil {
		return rules, err
	}
	if !e.Driver.Binds() {
		return rules, fmt.Errorf("%w: the engine at %s is on another machine and cannot mount folders of this one: remove mounts from [sandbox]",
			machine.ErrUnavailable, engine.Address)
	}
	socket := strings.TrimPrefix(engine.Address, "unix://")
	rules.Secret = append(append([]string{socket, e.WorkspaceRoot}, rules.Secret...), engine.DataRoot)
	return rules, nil
}

func closeAll(sources []*mounts.Source) {
	for _, s := range sources {
		s.Close()
	}
}
