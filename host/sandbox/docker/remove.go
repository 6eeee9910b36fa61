package docker

import (
	"context"
	"fmt"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

const (
	// refusedFor is how long an engine must refuse to remove a container before that counts.
	refusedFor = 5 * time.Second
	// removeAgain is the interval between attempts.
	removeAgain = 100 * time.Millisecond
)

// Remove implements driver.Driver. If the engine is removing the container by itself, because it ended, Remove waits for that.
//
// An engine also refuses to remove a container that ends at that moment: the signal finds no process, or its parts are being taken down
// already. The errors for that have no type, and their words change with the engine and its version, so every refusal is tried again.
func (d *Driver) Remove(ctx context.Context, id string) error {
	ctx, cancel := d.within(ctx, removeTimeout)
	defer cancel()
	for late := time.Now().Add(refusedFor); ; {
		err := d.removeOnce(ctx, id)
		if cerrdefs.IsNotFound(err) {
			return nil
		}
		if !cerrdefs.IsInternal(err) || time.Now().After(late) {
			return d.explain("remove container", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(removeAgain):
		}
	}
}

func (d *Driver) removeOnce(ctx context.Context, id string) error {
	err := d.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if !cerrdefs.IsConflict(err) {
		return err
	}
	gone, failed := d.api.ContainerWait(ctx, id, container.WaitConditionRemoved)
	select {
	case end := <-gone:
		if end.Error != nil { // the container still exists
			return fmt.Errorf("%w: the engine's own removal: %s", cerrdefs.ErrInternal, end.Error.Message)
		}
		return nil
	case err := <-failed:
		return err
	}
}
