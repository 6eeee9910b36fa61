package docker

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// EnsureNetwork implements driver.Networks. The network is a bridge of its own without a way out. Engines take two
// networks of one name, so the name is looked up first; of those that two processes make at the same time one stays.
func (d *Driver) EnsureNetwork(ctx context.Context, name string, labels map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	is, err := d.network(ctx, name, labels)
	if is || err != nil {
		return err
	}
	made, err := d.api.NetworkCreate(ctx, name, network.CreateOptions{Driver: "bridge", Internal: true, Labels: labels})
	if cerrdefs.IsConflict(err) {
		_, err = d.network(ctx, name, labels)
		return err
	}
	if err == nil && made.ID == "" {
		err = errIncomplete
	}
	if err != nil {
		return d.explain("create network", err)
	}
	return d.keepOne(ctx, name)
}

// network reports whether there is a network of that name, which must be the instance's.
func (d *Driver) network(ctx context.Context, name string, labels map[string]string) (bool, error) {
	found, err := d.networks(ctx, name)
	if err != nil || len(found) == 0 {
		return false, err
	}
	for _, n := range found {
		if owner := n.Labels[driver.LabelInstance]; owner != labels[driver.LabelInstance] {
			return false, fmt.Errorf("network %s on engine %s belongs to somebody else: remove it, or rename it", name, d.address)
		}
		if !n.Internal {
			return false, fmt.Errorf("network %s on engine %s has a way out: remove it", name, d.address)
		}
	}
	return true, nil
}

// networks are those with exactly that name; the engine's filter takes parts of names.
func (d *Driver) networks(ctx context.Context, name string) ([]network.Summary, error) {
	listed, err := d.api.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", name))})
	if err != nil {
		return nil, d.explain("list networks", err)
	}
	var found []network.Summary
	for _, n := range listed {
		if n.Name == name {
			found = append(found, n)
		}
	}
	return found, nil
}

// keepOne removes all networks of a name but the one with the smallest id. Of two processes that have made one at the same
// time, the one that looks later sees both.
func (d *Driver) keepOne(ctx context.Context, name string) error {
	found, err := d.networks(ctx, name)
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b network.Summary) int { return cmp.Compare(a.ID, b.ID) })
	for _, n := range found[min(1, len(found)):] {
		if err := d.RemoveNetwork(ctx, n.ID); err != nil {
			return err
		}
	}
	return nil
}

// RemoveNetwork implements driver.Networks. An id serves as well as a name, and better: another instance may have a network
// of the same name.
func (d *Driver) RemoveNetwork(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	err := d.api.NetworkRemove(ctx, name)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return d.explain("remove network", err)
}

// ListNetworks implements driver.Networks.
func (d *Driver) ListNetworks(ctx context.Context, instance string) ([]driver.Owned, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	listed, err := d.api.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("label", driver.LabelInstance+"="+instance))})
	if err != nil {
		return nil, d.explain("list networks", err)
	}
	owned := make([]driver.Owned, 0, len(listed))
	for _, n := range listed {
		owned = append(owned, driver.Owned{ID: n.ID, Name: n.Name, Labels: n.Labels})
	}
	return owned, nil
}
