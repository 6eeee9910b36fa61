package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// create makes the container, fetching its image if that is all that is missing.
func create(ctx context.Context, d driver.Driver, log *slog.Logger, c driver.Container) (string, error) {
	id, err := d.Create(ctx, c)
	if !errors.Is(err, driver.ErrNoImage) {
		return id, err
	}
	puller, ok := d.(driver.Puller)
	if !ok {
		return "", err
	}
	log.Info("sandbox image is missing, pulling it", "image", c.Image)
	if err := image.Pull(ctx, puller, c.Image, err); err != nil {
		return "", fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	return d.Create(ctx, c)
}
