package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// ImageRepository is the name that the instance's images have in common.
func ImageRepository(instance string) string { return "flynn-" + spec.Short(instance) }

// newBuilder returns what makes this instance's images, or nil if the driver can make none.
func (m *Manager) newBuilder() *image.Builder {
	engine, ok := m.config.Driver.(image.Engine)
	if !ok {
		return nil
	}
	instance, key := m.config.Instance, spec.NewKey()
	m.held[key] = true // lest they are taken for leftovers
	return image.New(image.Config{
		Engine: persistent{engine, m.reaper}, Instance: instance, Repository: ImageRepository(instance), Cache: filepath.Join(m.run, "binaries"), Log: m.log,
		Hidden: func() []string {
			if m.config.MountRules == nil {
				return nil
			}
			return m.config.MountRules().Hidden
		},
		WorkLabels: func() map[string]string {
			return m.labels(key, m.config.MaxAge)
		},
	})
}

// persistent is an engine whose containers that images are changed in go, however long it takes: as long as this process lives
// nobody else takes them for leftovers.
type persistent struct {
	image.Engine
	reaper *reaper.Reaper
}

// CreateWork implements image.Workbench. An engine that was too slow to answer may make the container yet.
func (p persistent) CreateWork(ctx context.Context, w image.Work) (string, error) {
	id, err := p.Engine.CreateWork(ctx, w)
	if err != nil {
		p.reaper.Abandon(w.Name, err)
	}
	return id, err
}

// Remove implements image.Workbench.
func (p persistent) Remove(ctx context.Context, id string) error { return p.reaper.Remove(ctx, id) }

// errNoBuilder is for drivers that take images as they are.
var errNoBuilder = errors.New("this driver makes no images: set image alone")

// PrepareImage returns the name of the specification's image, which is there unless it is one that is used as it is.
func (m *Manager) PrepareImage(ctx context.Context, spec spec.Spec) (string, error) {
	recipe := spec.Recipe()
	switch {
	case recipe.Strategy() == image.AsIs:
		return spec.Image, nil
	case m.images == nil:
		return "", fmt.Errorf("%w: %w", machine.ErrUnavailable, errNoBuilder)
	}
	ref, err := m.images.Prepare(ctx, recipe)
	if ctx.Err() != nil {
		return "", errRetired // nobody else ends the wait
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	return ref, nil
}

// RebuildImage makes the specification's image anew, and removes those that the same settings led to before unless a container
// needs them.
func (m *Manager) RebuildImage(ctx context.Context, spec spec.Spec) (image.Plan, []driver.Owned, error) {
	if m.images == nil {
		return image.Plan{}, nil, errNoBuilder
	}
	plan, err := m.images.Rebuild(ctx, spec.Recipe())
	if err != nil || plan.Family == "" {
		return plan, nil, err
	}
	removed, err := m.removeImages(ctx, func(o driver.Owned) bool {
		return o.Labels[image.LabelFamily] == plan.Family && o.Name != plan.Ref
	})
	return plan, removed, err
}

// PruneImages removes the images of this instance that none of the specifications comes to as things stand, and returns them;
// downloads that none of them names go as well.
// Where one cannot be told, because what it begins with is missing, all that it ever came to is kept.
func (m *Manager) PruneImages(ctx context.Context, needed []spec.Spec) ([]driver.Owned, error) {
	if m.images == nil {
		return nil, nil
	}
	refs, families := map[string]bool{}, map[string]bool{}
	var binaries []image.Binary
	for _, spec := range needed {
		binaries = append(binaries, spec.Binaries...)
		plan, err := m.images.Resolve(ctx, spec.Recipe())
		if err != nil {
			m.log.Warn("cannot name an image, so its predecessors are kept", "image", spec.Image, "dockerfile", spec.Dockerfile, "error", err)
			families[plan.Family] = true
		}
		refs[plan.Ref] = true
	}
	removed, err := m.removeImages(ctx, func(o driver.Owned) bool { return !refs[o.Name] && !families[o.Labels[image.LabelFamily]] })
	return removed, errors.Join(err, m.images.KeepDownloads(binaries))
}

// removeImages removes those chosen of the instance's images that nothing needs, with the stages that belong to them.
func (m *Manager) removeImages(ctx context.Context, chosen func(driver.Owned) bool) ([]driver.Owned, error) {
	keeper, ok := m.config.Driver.(driver.Images)
	if !ok {
		return nil, nil
	}
	listed, err := keeper.ListImages(ctx, m.config.Instance)
	if err != nil {
		return nil, err
	}
	kept := map[string]bool{}
	for _, o := range m.ours(listed) {
		if image.StageOf(o.Name) == "" && !chosen(o) {
			kept[o.Name] = true
		}
	}
	var removed []driver.Owned
	var all error
	for _, o := range m.ours(listed) {
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
