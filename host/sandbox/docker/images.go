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

// RemoveImage implements image.Store and driver.Images. As with the engine's own command, what an image was built on goes
// with it where that has no name and nothing else needs it.
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

// ListImages implements driver.Images: those that carry the instance's label, once for each name, and what has a name in
// their repository beside them. The latest come first, so that they can be removed in that order.
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
		if i.Labels[image.LabelInstance] == instance { // never trust a filter with somebody else's work
			owned = append(owned, ownedImages(i, instance)...)
		}
	}
	return owned, err
}

// unlabelled are the stages of builds, which the engine puts no labels on.
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

// depths say how many images of the list each one is built on: the engine tells their times in seconds only.
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

// ownedImages is an image under each of its names, or under none.
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
