package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// ImageRepository returns the repository of the instance's images.
func ImageRepository(instance string) string { return "flynn-" + spec.Short(instance) }

// Images builds and removes this instance's images.
type Images struct {
	engine  *engine
	builder *image.Builder // nil if the driver cannot build images
}

func newImages(e *engine) *Images {
	makes, ok := e.Driver.(image.Engine)
	if !ok {
		return &Images{engine: e}
	}
	key := spec.NewKey()
	e.Keys.Hold(key) // so that nobody takes them for leftovers
	return &Images{engine: e, builder: image.New(image.Config{
		Engine: persistent{makes, e.Reaper}, Instance: e.Instance, Repository: ImageRepository(e.Instance), Cache: filepath.Join(e.Run, "binaries"), Log: e.Log,
		Hidden: func() []string {
			if e.MountRules == nil {
				return nil
			}
			return e.MountRules().Hidden
		},
		WorkLabels: func() map[string]string { return e.labels(key, e.MaxAge) },
	})}
}

// persistent is an engine that removes its work containers however long it takes; nobody takes them for leftovers while this process lives.
type persistent struct {
	image.Engine
	reaper *reaper.Reaper
}

// CreateWork implements image.Workbench. An engine that answers too late may still create the container.
func (p persistent) CreateWork(ctx context.Context, w image.Work) (string, error) {
	id, err := p.Engine.CreateWork(ctx, w)
	if err != nil {
		p.reaper.Abandon(w.Name, err)
	}
	return id, err
}

// Remove implements image.Workbench.
func (p persistent) Remove(ctx context.Context, id string) error { return p.reaper.Remove(ctx, id) }

// ErrClosed is the error of calls to a sandbox that was closed.
var ErrClosed = fmt.Errorf("%w: the session's sandbox was closed", machine.ErrUnavailable)

// errNoBuilder is the error of drivers that cannot build images.
var errNoBuilder = errors.New("packages, binaries, dockerfile and compose need a container engine, and sandboxes are made without one: start Docker or Podman")

// Prepare returns the name of the specification's image, which exists unless it is one that is used unchanged.
func (is *Images) Prepare(ctx context.Context, s spec.Spec) (string, error) {
	recipe := s.Recipe()
	switch {
	case recipe.Strategy() == image.AsIs && filepath.IsAbs(s.Image):
		return s.Image, is.engine.checkFiles(s.Image)
	case recipe.Strategy() == image.AsIs:
		return s.Image, nil
	case is.builder == nil:
		return "", fmt.Errorf("%w: %w", machine.ErrUnavailable, errNoBuilder)
	}
	ref, err := is.builder.Prepare(ctx, recipe)
	if ctx.Err() != nil {
		return "", ErrClosed // nothing else ends the wait
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	return ref, nil
}

// checkFiles refuses a folder as an image that no sandbox may see. Of an archive a sandbox sees nothing but what is unpacked.
func (e *engine) checkFiles(path string) error {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return nil // the driver reports it
	}
	var rules mounts.Rules
	if e.MountRules != nil {
		rules = e.MountRules()
	}
	rules.Roots, rules.Secret = []string{path}, append([]string{e.WorkspaceRoot}, rules.Secret...)
	if _, err := rules.Check(path); err != nil {
		return fmt.Errorf("%w: image of [sandbox] may not be %w", machine.ErrUnavailable, err)
	}
	return nil
}

// Rebuild builds the specification's image again, and removes the previous images of the same settings unless a container needs them.
func (is *Images) Rebuild(ctx context.Context, s spec.Spec) (image.Plan, []driver.Owned, error) {
	if is.builder == nil {
		return image.Plan{}, nil, errNoBuilder
	}
	plan, err := is.builder.Rebuild(ctx, s.Recipe())
	if err != nil || plan.Family == "" {
		return plan, nil, err
	}
	removed, err := is.remove(ctx, func(o driver.Owned) bool {
		return o.Labels[image.LabelFamily] == plan.Family && o.Name != plan.Ref
	})
	return plan, removed, err
}

// Prune removes the images of this instance, and the downloads, that none of the specifications needs at the moment, and returns the
// images. If the image of a specification cannot be determined because an image that it starts from is missing, all images of its family
// are kept.
func (is *Images) Prune(ctx context.Context, needed []spec.Spec) ([]driver.Owned, error) {
	if is.builder == nil {
		return nil, nil
	}
	refs, families := map[string]bool{}, map[string]bool{}
	var binaries []image.Binary
	for _, s := range needed {
		binaries = append(binaries, s.Binaries...)
		plan, err := is.builder.Resolve(ctx, s.Recipe())
		if err != nil {
			is.engine.Log.Warn("cannot determine the current image; keeping all its versions", "image", s.Image, "dockerfile", s.Dockerfile, "error", err)
			families[plan.Family] = true
		}
		refs[plan.Ref] = true
	}
	removed, err := is.remove(ctx, func(o driver.Owned) bool { return !refs[o.Name] && !families[o.Labels[image.LabelFamily]] })
	return removed, errors.Join(err, is.builder.KeepDownloads(binaries))
}

// remove removes the chosen images that nothing needs, with their stages.
func (is *Images) remove(ctx context.Context, chosen func(driver.Owned) bool) ([]driver.Owned, error) {
	keeper, ok := is.engine.Driver.(driver.Images)
	if !ok {
		return nil, nil
	}
	listed, err := keeper.ListImages(ctx, is.engine.Instance)
	if err != nil {
		return nil, err
	}
	kept := map[string]bool{}
	for _, o := range driver.OwnedBy(is.engine.Instance, listed) {
		if image.StageOf(o.Name) == "" && !chosen(o) {
			kept[o.Name] = true
		}
	}
	var removed []driver.Owned
	var all error
	for _, o := range driver.OwnedBy(is.engine.Instance, listed) {
		if of := image.StageOf(o.Name); of != "" && kept[of] || of == "" && !chosen(o) {
			continue
		}
		switch err := keeper.RemoveImage(ctx, cmp.Or(o.Name, o.ID)); {
		case err == nil:
			removed = append(removed, o)
		case !errors.Is(err, image.ErrInUse):
			all = errors.Join(all, err)
		}
	}
	return removed, all
}
