package docker

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

var _ driver.Volumes = (*Driver)(nil)

// labelMark holds a random value, because an engine has no id that distinguishes a volume from a later one of the same name.
const labelMark = "flynn.mark"

// EnsureVolume implements driver.Volumes. For an existing name the engine returns the existing volume, whatever its labels and driver, so
// these are always checked. They are read separately, because an engine that was restarted leaves them out of that answer.
func (d *Driver) EnsureVolume(ctx context.Context, name string, labels map[string]string) (mark string, err error) {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	marked := maps.Clone(labels)
	marked[labelMark] = rand.Text()
	made, err := d.api.VolumeCreate(ctx, volume.CreateOptions{Name: name, Driver: "local", Labels: marked})
	if err == nil {
		made, err = d.api.VolumeInspect(ctx, name)
	}
	switch {
	case err != nil:
		return "", d.explain("make volume "+name, err)
	case made.Labels[driver.LabelInstance] != labels[driver.LabelInstance]:
		return "", fmt.Errorf("volume %s on engine %s belongs to somebody else: remove it with: docker volume rm %s", name, d.address, name)
	case made.Driver != "local" || len(made.Options) > 0:
		return "", fmt.Errorf("volume %s on engine %s is not as it was made: remove it with: docker volume rm %s", name, d.address, name)
	}
	return cmp.Or(made.Labels[labelMark], made.CreatedAt), nil
}

// RemoveVolume implements driver.Volumes.
func (d *Driver) RemoveVolume(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	err := d.api.VolumeRemove(ctx, name, false)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return d.explain("remove volume "+name, err)
}

// ListVolumes implements driver.Volumes.
func (d *Driver) ListVolumes(ctx context.Context, instance string) ([]driver.Owned, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	found, err := d.api.VolumeList(ctx, volume.ListOptions{
		Filters: filters.NewArgs(filters.Arg("label", driver.LabelInstance+"="+instance)),
	})
	if err != nil {
		return nil, d.explain("list volumes", err)
	}
	owned := make([]driver.Owned, 0, len(found.Volumes))
	for _, v := range found.Volumes {
		if v == nil {
			continue
		}
		owned = append(owned, driver.Owned{ID: v.Name, Name: v.Name, Labels: v.Labels})
	}
	return owned, nil
}

var _ driver.Filler = (*Driver)(nil)

// Fill implements driver.Filler. The engine unpacks into the mounts of a container that does not run.
func (d *Driver) Fill(ctx context.Context, id, dir string, files io.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return d.explain("copy into container", d.api.CopyToContainer(ctx, id, dir, files, container.CopyToContainerOptions{}))
}
