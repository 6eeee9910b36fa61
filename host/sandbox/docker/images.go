package docker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	apiimage "github.com/docker/docker/api/types/image"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/image"
)

var (
	_ image.Engine     = (*Driver)(nil)
	_ driver.Images    = (*Driver)(nil)
	_ driver.Inspector = (*Driver)(nil)
)

// Platform implements image.Store.
func (d *Driver) Platform(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	v, err := d.api.ServerVersion(ctx)
	if err == nil && (v.Os == "" || v.Arch == "") {
		err = errIncomplete
	}
	return v.Os + "/" + v.Arch, d.explain("describe itself", err)
}

// InspectImage implements image.Store and driver.Inspector.
func (d *Driver) InspectImage(ctx context.Context, ref string) (image.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	found, err := d.api.ImageInspect(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return image.Info{}, fmt.Errorf("%w: %s on engine %s", image.ErrNoImage, ref, d.address)
	}
	if err == nil && found.ID == "" {
		err = errIncomplete
	}
	if err != nil {
		return image.Info{}, d.explain("inspect image "+ref, err)
	}
	info := image.Info{ID: found.ID, Platform: strings.TrimSuffix(found.Os+"/"+found.Architecture+"/"+found.Variant, "/")}
	if found.Config != nil {
		c := found.Config
		info.Labels, info.Env, info.WorkingDir, info.Entrypoint, info.Cmd = c.Labels, c.Env, c.WorkingDir, c.Entrypoint, c.Cmd
		info.OnBuild = c.OnBuild
	}
	return info, nil
}

// TagImage implements image.Store.
func (d *Driver) TagImage(ctx context.Context, id, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return d.explain("name image "+ref, d.api.ImageTag(ctx, id, ref))
}

// RemoveImage implements image.Store and driver.Images. Like docker rmi, it also removes untagged parents that nothing else needs.
func (d *Driver) RemoveImage(ctx context.Context, ref string) error {
	return d.removeImage(ctx, ref, true)
}

func (d *Driver) removeImage(ctx context.Context, ref string, parents bool) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	_, err := d.api.ImageRemove(ctx, ref, apiimage.RemoveOptions{PruneChildren: parents})
	switch {
	case cerrdefs.IsNotFound(err):
		return nil
	case cerrdefs.IsConflict(err):
		return fmt.Errorf("%w: %w", image.ErrInUse, err)
	}
	return d.explain("remove image "+ref, err)
}

// ListImages implements driver.Images. It returns the images that carry the instance's label, once for each name, and the other tags in
// their repository. The newest come first, so that they can be removed in that order.
func (d *Driver) ListImages(ctx context.Context, instance string) ([]driver.Owned, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	owned, err := d.labelled(ctx, instance)
	if err != nil {
		return nil, err
	}
	repositories := map[string]bool{}
	for _, o := range owned {
		if repository, _, named := strings.Cut(o.Name, ":"); named && !repositories[repository] {
			repositories[repository] = true
			beside, err := d.unlabelled(ctx, repository, instance)
			if err != nil {
				return nil, err
			}
			owned = append(owned, beside...)
		}
	}
	return owned, nil
}

func (d *Driver) labelled(ctx context.Context, instance string) ([]driver.Owned, error) {
	found, err := d.listImages(ctx, filters.Arg("label", image.LabelInstance+"="+instance))
	var owned []driver.Owned
	for _, i := range found {
		if i.Labels[image.LabelInstance] == instance { // not trusting the engine's filter: other people's images are at stake
			owned = append(owned, ownedImages(i, instance)...)
		}
	}
	return owned, err
}

// unlabelled returns the images of build stages, which the engine does not label.
func (d *Driver) unlabelled(ctx context.Context, repository, instance string) ([]driver.Owned, error) {
	found, err := d.listImages(ctx, filters.Arg("reference", repository+":*"))
	var owned []driver.Owned
	for _, i := range found {
		if i.Labels[image.LabelInstance] == "" {
			owned = append(owned, ownedImages(i, instance)...)
		}
	}
	return owned, err
}

func (d *Driver) listImages(ctx context.Context, filter filters.KeyValuePair) ([]apiimage.Summary, error) {
	found, err := d.api.ImageList(ctx, apiimage.ListOptions{All: true, Filters: filters.NewArgs(filter)})
	if err != nil {
		return nil, d.explain("list images", err)
	}
	depth := depths(found)
	slices.SortStableFunc(found, func(a, b apiimage.Summary) int {
		return cmp.Or(cmp.Compare(b.Created, a.Created), cmp.Compare(depth[b.ID], depth[a.ID]))
	})
	return found, nil
}

// depths returns how many images of the list each one is built on, because the engine's times have a resolution of seconds.
func depths(found []apiimage.Summary) map[string]int {
	parents := map[string]string{}
	for _, i := range found {
		parents[i.ID] = i.ParentID
	}
	depth := map[string]int{}
	for id := range parents {
		for parent, listed := parents[id]; listed && depth[id] < len(found); parent, listed = parents[parent] {
			depth[id]++
		}
	}
	return depth
}

// ownedImages returns an image once for each of its names, or once if it has none.
func ownedImages(i apiimage.Summary, instance string) []driver.Owned {
	labels := map[string]string{
		driver.LabelInstance: instance, driver.LabelKey: i.Labels[image.LabelKey], driver.LabelExpires: i.Labels[image.LabelExpires],
		image.LabelFamily: i.Labels[image.LabelFamily],
	}
	one := driver.Owned{ID: i.ID, Labels: labels, Created: time.Unix(i.Created, 0)}
	var owned []driver.Owned
	for _, name := range i.RepoTags {
		if name != "<none>:<none>" {
			one.Name = name
			owned = append(owned, one)
		}
	}
	if len(owned) == 0 {
		owned = append(owned, one)
	}
	return owned
}
