package docker

import (
	"context"
	"time"

	cerrdefs "github.com/containerd/errdefs"
)

// pauseTimeout bounds the freezing of a container, for which the kernel has to catch every process.
const pauseTimeout = 15 * time.Second

// An engine that is asked at once after it was asked for the opposite may refuse, because it has yet to hear of that from what
// freezes containers.
const (
	pauseTries = 10
	pauseAgain = 50 * time.Millisecond
)

// Pause implements sandbox.Pauser. A container that is paused already is no error.
func (d *Driver) Pause(ctx context.Context, id string) error {
	return d.settle(ctx, id, true, "pause container", d.api.ContainerPause)
}

// Unpause implements sandbox.Pauser. A container that runs is no error.
func (d *Driver) Unpause(ctx context.Context, id string) error {
	return d.settle(ctx, id, false, "unpause container", d.api.ContainerUnpause)
}

// settle forgives a refusal where there was nothing to do; engines differ in the status they give it.
func (d *Driver) settle(ctx context.Context, id string, paused bool, doing string, do func(ctx context.Context, id string) error) error {
	ctx, cancel := context.WithTimeout(ctx, pauseTimeout)
	defer cancel()
	for try := 1; ; try++ {
		err := do(ctx, id)
		if err == nil || cerrdefs.IsNotFound(err) {
			return d.explain(doing, err)
		}
		found, failure := d.inspect(ctx, id)
		switch {
		case failure == nil && found.State.Running && found.State.Paused == paused:
			return nil
		case failure != nil || !found.State.Running || try == pauseTries:
			return d.explain(doing, err)
		}
		select {
		case <-time.After(pauseAgain):
		case <-ctx.Done():
			return d.explain(doing, err)
		}
	}
}
