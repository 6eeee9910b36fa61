package docker

import (
	"context"
	"io"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

var (
	_ driver.Filler = (*Driver)(nil)
	_ driver.Binder = (*Driver)(nil)
)

// Fill implements driver.Filler. The engine unpacks into what the container mounts there, although it does not run.
func (d *Driver) Fill(ctx context.Context, id, dir string, files io.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return d.explain("copy into container", d.api.CopyToContainer(ctx, id, dir, files, container.CopyToContainerOptions{}))
}
