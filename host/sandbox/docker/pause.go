package docker

import (
	"context"
	"time"

	cerrdefs "github.com/containerd/errdefs"
)

// pauseTimeout bounds the freezing of a container, for which the kernel has to catch every process.
const pauseTimeout = 15 * time.Second

// Pause implements sandbox.Pauser. A container that is paused already is no error.
func (d *Driver) Pause(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, pauseTimeout)
	defer cancel()
	return d.settled(ctx, id, true, "pause container", d.api.ContainerPause(ctx, id))
}

// Unpause implements sandbox.Pauser. A container that runs is no error.
func (d *Driver) Unpause(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, pauseTimeout)
	defer cancel()
	return d.settled(ctx, id, false, "unpause container", d.api.ContainerUnpause(ctx, id))
}

// settled forgives a refusal where there was nothing to do; engines differ in the status they give it.
func (d *Driver) settled(ctx context.Context, id string, paused bool, doing string, err error) error {
	if err == nil || cerrdefs.IsNotFound(err) {
		return d.explain(doing, err)
	}
	found, failure := d.api.ContainerInspect(ctx, id)
	if failure == nil && found.ContainerJSONBase != nil && found.State != nil && found.State.Running && found.State.Paused == paused {
		return nil
	}
	return d.explain(doing, err)
}
