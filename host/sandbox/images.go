package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/image"
)

// Recipe says how the specification's image comes about.
func (s Spec) Recipe() image.Recipe {
	return image.Recipe{
		Image: s.Image, Packages: s.Packages, Binaries: s.Binaries, Dockerfile: s.Dockerfile, Context: s.BuildContext, Network: s.BuildNetwork,
	}
}

// newBuilder returns what makes this instance's images, or nil if the driver can make none.
func newBuilder(c Config, run string) *image.Builder {
	engine, ok := c.Driver.(image.Engine)
	if !ok {
		return nil
	}
	return image.New(image.Config{
		Engine: engine, Instance: c.Instance, Repository: "flynn-" + short(c.Instance),
		WorkLabels: map[string]string{LabelInstance: c.Instance}, Cache: filepath.Join(run, "binaries"), Log: c.Log,
	})
}

// errNoBuilder is for drivers that take images as they are.
var errNoBuilder = errors.New("this driver makes no images: set image alone")

// prepareImage returns the name of the specification's image, which is there unless it is one that is used as it is.
func (m *Manager) prepareImage(ctx context.Context, spec Spec) (string, error) {
	recipe := spec.Recipe()
	switch {
	case recipe.Strategy() == image.AsIs:
		return spec.Image, nil
	case m.images == nil:
		return "", fmt.Errorf("%w: %w", machine.ErrUnavailable, errNoBuilder)
	}
	ref, err := m.images.Prepare(ctx, recipe)
	if err != nil {
		return "", fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	return ref, nil
}

// Image says which image a specification comes to as things stand, without making it; see image.Builder.Resolve.
func (m *Manager) Image(ctx context.Context, spec Spec) (image.Plan, error) {
	if m.images == nil {
		return image.Plan{Strategy: image.AsIs, Ref: spec.Image}, nil
	}
	return m.images.Resolve(ctx, spec.Recipe())
}
